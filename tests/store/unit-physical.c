/* SPDX-License-Identifier: MIT */
/* lib/store/physical.c: the frames of a store's physical view. */
#include "config.h"

#include <stdio.h>

#include "tests/store/storegen.h"
#include "tests/unit.h"

static const char *text_of(const struct store *s)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	static char text[4096];
	char *to = text;
	struct store_event e;
	int rc = store_iter_new(s, 0, &it);

	text[0] = 0;
	while (rc == 0 && (rc = store_iter_next(it, &e)) == 1) {
		const char *name = e.type < STORE_GAP ? store_function(s, e.frame.function)->name : "";

		rc = 0;
		if (e.type == STORE_ENTER)
			to += sprintf(to, "%ju %s:%s( ", (uintmax_t)e.time, calls_kind_str(e.kind), name);
		else if (e.type == STORE_LEAVE)
			to += sprintf(to, "%ju )%s ", (uintmax_t)e.time, calls_leave_str(e.kind));
		else
			to += sprintf(to, "%ju gap ", (uintmax_t)e.time);
	}
	CHECK_EQ(rc, 0);
	return text;
}

static struct store_writer *writer;
static struct thread *thread;
static int fd;

static void begin(void)
{
	const struct store_meta meta = { .pid = 1, .program = "p", .id = "i", .realtime = 7 };

	make_functions();
	fd = memfd_create("store", MFD_CLOEXEC);
	thread = calloc(1, sizeof(*thread));
	CHECK_EQ(store_create(fd, &meta, &writer), 0);
	thread->writer = writer;
	store_thread_add(writer, 5, "main", &thread->index);
	segment(thread);
}

static void at(uint64_t time)
{
	thread->time = thread->instructions = time;
}

/* Ends the store, and returns its physical view. */
static struct store *end(const char *want)
{
	const struct calls_counts counts = { .instructions = 1000, .unexplained = 3 };
	_cleanup_(store_closep) struct store *s = NULL;
	static int to = -1;
	struct store *view = NULL;

	closep(&to);
	to = memfd_create("view", MFD_CLOEXEC);
	CHECK(!thread->failed);
	CHECK_EQ(store_thread_end(writer, thread->index, &counts), 0);
	CHECK_EQ(store_finish(writer), 0);
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(store_physical(s, to), 0);
	CHECK_EQ(store_open(to, &view), 0);
	CHECK_STR(text_of(view), want);
	CHECK_STR(store_meta(view, "id"), "i");
	CHECK_EQ(store_meta_number(view, "realtime"), 7);
	CHECK_EQ(store_thread(view, 0)->instructions, 1000);
	CHECK_EQ(store_thread(view, 0)->unexplained, 3);
	store_writer_free(writer);
	close(fd);
	free(thread->events);
	free(thread);
	return view;
}

static const struct store_function *function_named(const struct store *s, const char *name)
{
	for (size_t i = 0; i < store_functions(s); i++)
		if (strcmp(store_function(s, i)->name, name) == 0)
			return store_function(s, i);
	return NULL;
}

static void test_chain(void)
{
	struct store *s;
	const struct store_function *f;

	begin();
	enter(thread, CALL_INFERRED, 0);
	at(10);
	enter(thread, CALL_PLAIN, 1);
	enter(thread, CALL_INLINED, FUNCTIONS + 1);
	at(30);
	enter(thread, CALL_TAIL, 2);
	at(40);
	enter(thread, CALL_SYSCALL, FUNCTIONS); /* waiting */
	at(50);
	leave(thread, LEAVE_RETURN);
	enter(thread, CALL_TAIL, 3);
	at(100);
	leave(thread, LEAVE_RETURN);
	leave(thread, LEAVE_RETURN);
	leave(thread, LEAVE_RETURN);
	leave(thread, LEAVE_RETURN);
	at(110);
	end_segment(thread, LEAVE_END);
	s = end("0 inferred:function0( 10 call:function1( 10 inlined:small( 30 )tail 30 )tail 30 tail:function2( "
		"40 syscall:waiting( 50 )return 50 )tail 50 tail:function3( 100 )return 110 )end ");
	f = function_named(s, "function1");
	CHECK_EQ(f->total_ns, 20);
	CHECK_EQ(f->total_instructions, 20);
	CHECK_EQ(f->whole, 1);
	CHECK_EQ(function_named(s, "function2")->total_ns, 20);
	CHECK_EQ(function_named(s, "function3")->self_ns, 50);
	store_close(s);
}

static void test_folded(void)
{
	struct store *s;

	begin();
	enter(thread, CALL_INFERRED, 0);
	at(10);
	enter(thread, CALL_TAIL, 1);
	at(20);
	enter(thread, CALL_TAIL, 2);
	at(30);
	leave(thread, LEAVE_FOLDED);
	leave(thread, LEAVE_FOLDED);
	enter(thread, CALL_FOLDED, 1);
	at(40);
	leave(thread, LEAVE_FOLDED);
	enter(thread, CALL_FOLDED, 3);
	at(50);
	enter(thread, CALL_PLAIN, 4);
	gap(thread, GAP_PAUSED);
	at(60);
	segment(thread);
	enter(thread, CALL_RESUMED, 5);
	enter(thread, CALL_RESUMED_TAIL, 6);
	at(70);
	end_segment(thread, LEAVE_END);
	s = end("0 inferred:function0( 10 )tail 10 tail:function1( 20 )tail 20 tail:function2( 30 )tail "
		"30 tail:function1( 40 )tail 40 tail:function3( 50 call:function4( 50 )gap 50 )gap 50 gap "
		"60 resumed:function5( 60 )tail 60 resumed:function6( 70 )end ");
	CHECK_EQ(store_thread(s, 0)->gaps, 1);
	CHECK_EQ(function_named(s, "function1")->calls, 2);
	CHECK_EQ(function_named(s, "function6")->calls, 0);
	store_close(s);
}

static void test_jump_back(void)
{
	begin();
	enter(thread, CALL_INFERRED, 0);
	at(10);
	enter(thread, CALL_PLAIN, 1);
	enter(thread, CALL_INLINED, FUNCTIONS + 1);
	at(20);
	enter(thread, CALL_TAIL, 2);
	at(30);
	enter(thread, CALL_TAIL, 3);
	at(40);
	leave(thread, LEAVE_RETURN);
	leave(thread, LEAVE_BACK);
	at(50);
	leave(thread, LEAVE_RETURN);
	leave(thread, LEAVE_RETURN);
	at(60);
	end_segment(thread, LEAVE_END);
	store_close(
	    end("0 inferred:function0( 10 call:function1( 10 inlined:small( 20 )tail 20 )tail 20 tail:function2( "
		"30 )tail 30 tail:function3( 40 )return 40 tail:function1( 40 inlined:small( 50 )return "
		"50 )return 60 )end "));
}

int main(void)
{
	test_chain();
	test_folded();
	test_jump_back();
	return unit_end();
}
