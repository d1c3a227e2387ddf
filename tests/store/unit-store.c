/* SPDX-License-Identifier: MIT */
/* lib/store: events are read back as written, from any position. */
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/store/format.h"
#include "lib/store/histogram.h"
#include "lib/store/store.h"
#include "tests/store/storegen.h"
#include "tests/unit.h"

/* Compares the events from one index on. Returns how many are equal before the first that is not. */
static size_t compare(const struct store *s, struct store_iter *it, const struct thread *t, size_t from, size_t limit)
{
	struct store_event e;
	size_t i = from;
	int rc;

	while ((rc = store_iter_next(it, &e)) == 1 && i < t->n && i - from < limit) {
		if (!same(s, &e, &t->events[i])) {
			printf("# event %zu: got type %d kind %u time %ju depth %u, want type %d kind %u time %ju "
			       "depth %u\n",
			       i, (int)e.type, e.kind, (uintmax_t)e.time, e.depth, (int)t->events[i].type,
			       t->events[i].kind, (uintmax_t)t->events[i].time, t->events[i].depth);
			return i - from;
		}
		i++;
	}
	return rc < 0 ? 0 : i - from;
}

static bool seek_and_compare(const struct store *s, const struct thread *t, uint64_t time)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	const struct store_frame *stack;
	size_t from = 0, depth = 0;
	static struct expected open[8192];
	uint64_t waited = 0;

	while (from < t->n && t->events[from].time < time) {
		depth += t->events[from].type == STORE_ENTER;
		depth -= t->events[from].type == STORE_LEAVE;
		if (t->events[from].type == STORE_LEAVE && t->events[from].function == FUNCTIONS)
			waited += t->events[from].time - t->events[from].enter;
		if (t->events[from].type == STORE_ENTER)
			open[t->events[from].depth] = t->events[from];
		from++;
	}
	if (store_iter_new(s, t->index, &it) < 0 || store_iter_seek(it, time) < 0)
		return false;
	if (store_iter_stack(it, &stack) != depth)
		return false;
	if (depth && open[depth - 1].function == FUNCTIONS)
		waited += time - open[depth - 1].enter;
	if (from < t->n && store_iter_waited(it, time) != waited)
		return false;
	for (size_t i = 0; i < depth; i++) {
		if (stack[i].enter != open[i].enter || stack[i].kind != open[i].kind)
			return false;
	}
	return compare(s, it, t, from, 300) == MIN((size_t)300, t->n - from);
}

/* Classes are contiguous, and each contains its representative time. */
static void test_classes(void)
{
	unsigned last = 0, wrong = 0;

	for (uint64_t ns = 1; ns < (uint64_t)1 << 62; ns += ns / 100 + 1) {
		unsigned class = histogram_class(ns);

		wrong += class < last || class > last + 1 || class >= HISTOGRAM_CLASSES;
		wrong += histogram_class(histogram_time(class)) != class || !is_near(histogram_time(class), ns);
		last = class;
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(histogram_class(UINT64_MAX), HISTOGRAM_CLASSES - 1);
}

static void test_round_trip(size_t n, size_t steps, size_t blocks_at_least)
{
	struct thread *threads = calloc(n, sizeof(*threads));
	_cleanup_close_ int fd = make_store(threads, n, steps);
	_cleanup_(store_closep) struct store *s = NULL;
	size_t events = 0, good = 0, seeks = 0;
	off_t size = lseek(fd, 0, SEEK_END);

	if (!CHECK(fd >= 0) || !CHECK_EQ(store_open(fd, &s), 0))
		return;
	CHECK_EQ(store_threads(s), n);
	CHECK_EQ(store_meta_number(s, "pid"), 77);
	CHECK_STR(store_meta(s, "program"), "prog");
	CHECK(!store_meta(s, "id"));
	for (size_t i = 0; i < n; i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		const struct store_thread *t = store_thread(s, i);

		CHECK_EQ(t->tid, 100 + i);
		CHECK_EQ(store_iter_new(s, i, &it), 0);
		events += threads[i].n;
		good += compare(s, it, &threads[i], 0, SIZE_MAX);
		for (int k = 0; k < 60; k++) {
			uint64_t time = t->first + (t->last + 100 - t->first) * (unsigned)k / 57;

			seeks += seek_and_compare(s, &threads[i], time);
			/* Exactly at an event; several events may have the same time. */
			seeks +=
			    seek_and_compare(s, &threads[i], threads[i].events[(size_t)rand() % threads[i].n].time);
		}
	}
	CHECK_EQ(good, events);
	CHECK_EQ(seeks, n * 120);
	CHECK((size_t)size > blocks_at_least * 65536);
	printf("# %zu events, %jd bytes\n", events, (intmax_t)size);
	for (size_t i = 0; i < n; i++)
		free(threads[i].events);
	free(threads);
}

/* With a filter: every leave of one function, and only some of the other events. */
static void test_only(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 1, 300000);
	_cleanup_(store_closep) struct store *s = NULL;
	size_t wrong = 0, returned = 0, all = 0;

	if (!CHECK_EQ(store_open(fd, &s), 0))
		return;
	for (size_t f = 0; f < store_functions(s); f++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		uint8_t wanted[NUMBERS] = { 0 };
		int which = number_in(store_function(s, f));
		struct store_event e;
		size_t i = 0;

		wanted[f] = 1;
		wrong += store_iter_new(s, 0, &it) != 0;
		store_iter_filter(it, wanted);
		while (store_iter_next(it, &e) == 1) {
			returned++;
			if (e.type != STORE_LEAVE || e.frame.function != f)
				continue;
			while (i < t->n &&
			       (t->events[i].type != STORE_LEAVE || number_of(t->events[i].function) != which))
				i++;
			wrong += i == t->n || t->events[i].time != e.time || t->events[i].enter != e.frame.enter ||
				 t->events[i].depth != e.depth;
			i++;
		}
		while (i < t->n && (t->events[i].type != STORE_LEAVE || number_of(t->events[i].function) != which))
			i++;
		wrong += i != t->n;
		all += t->n;
	}
	CHECK_EQ(wrong, 0);
	CHECK(returned < all);
	printf("# %zu of %zu events were read\n", returned, all);
	free(t->events);
	free(t);
}

/* Events in an invalid order are refused. */
static void test_misuse(void)
{
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	struct store_meta meta = { .pid = 1 };
	struct call_event leave_none = { CALL_EVENT_LEAVE, LEAVE_RETURN, 5, 5, 0, NULL };
	struct call_event first = { CALL_EVENT_SEGMENT, 0, 10, 10, 0, NULL };
	struct call_event earlier = { CALL_EVENT_ENTER, CALL_SYSCALL, 9, 11, 0, NULL };
	uint32_t thread;

	CHECK_EQ(store_create(fd, &meta, &w), 0);
	CHECK_EQ(store_event(w, 0, &first), -EINVAL);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	CHECK_EQ(store_event(w, thread, &leave_none), -EINVAL);
	CHECK_EQ(store_event(w, thread, &first), 0);
	CHECK_EQ(store_event(w, thread, &earlier), -EINVAL);
	/* Between a gap and the next segment nothing runs. */
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_GAP, GAP_PAUSED, 10, 10, 0, NULL }), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_ENTER, CALL_SYSCALL, 11, 11, 0, NULL }),
		 -EINVAL);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_ROOT, 0, 11, 11, 0, NULL }), -EINVAL);
	CHECK_EQ(store_event(w, thread,
			     &(struct call_event){ CALL_EVENT_MOVE, 0, 11, 11, 0, .inlined = nested, .entered = 1 }),
		 -EINVAL);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_SEGMENT, 0, 11, 11, 0, NULL }), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_MOVE, 0, 11, 11, 0, .left = 1 }), -EINVAL);
	CHECK_EQ(store_event(w, thread,
			     &(struct call_event){ CALL_EVENT_MOVE, 0, 11, 11, 0, .inlined = nested, .entered = 2 }),
		 -EINVAL);
}

/* Steps of centuries in time, as in a garbled trace. */
static void test_far(void)
{
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	const uint64_t times[] = { 5, (uint64_t)1 << 61, UINT64_MAX - 1, UINT64_MAX };
	struct store_meta meta = { .pid = 1 };
	struct store_event e;
	uint32_t thread;

	make_functions();
	CHECK_EQ(store_create(fd, &meta, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_SEGMENT, 0, 0, 0, 0, NULL }), 0);
	for (size_t i = 0; i < ELEMENTS(times); i++)
		CHECK_EQ(
		    store_event(w, thread,
				&(struct call_event){ CALL_EVENT_ENTER, CALL_PLAIN, times[i], i, 0, &functions[i] }),
		    0);
	for (size_t i = 0; i < ELEMENTS(times); i++)
		CHECK_EQ(store_event(w, thread,
				     &(struct call_event){ CALL_EVENT_LEAVE, LEAVE_RETURN, UINT64_MAX, 9, 0, NULL }),
			 0);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(store_iter_new(s, 0, &it), 0);
	for (size_t i = 0; i < ELEMENTS(times); i++)
		CHECK(store_iter_next(it, &e) == 1 && e.type == STORE_ENTER && e.time == times[i]);
	for (size_t i = ELEMENTS(times); i-- > 0;)
		CHECK(store_iter_next(it, &e) == 1 && e.type == STORE_LEAVE && e.frame.enter == times[i]);
	CHECK_EQ(store_iter_next(it, &e), 0);
}

/* Returns from a recursion that is deeper than a reader's stack, and that began before the trace. */
static void test_many_roots(void)
{
	enum { RETURNS = 140000 };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	struct call_event enter = { CALL_EVENT_ENTER, CALL_INFERRED, 1, 1, 0, &functions[0] };
	struct call_event leave = { CALL_EVENT_LEAVE, LEAVE_RETURN, 1, 1, 0, NULL };
	struct store_event e;
	uint32_t thread, enters = 0, n = 0;
	bool failed = false;

	make_functions();
	CHECK_EQ(store_create(fd, &(struct store_meta){ .pid = 1 }, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	CHECK_EQ(store_event(w, thread, &(struct call_event){ CALL_EVENT_SEGMENT, 0, 1, 1, 0, NULL }), 0);
	for (int i = 0; i <= RETURNS; i++) {
		failed = failed || store_event(w, thread, &enter) < 0 || store_event(w, thread, &leave) < 0;
		enter.type = CALL_EVENT_ROOT;
		enter.time = ++leave.time;
	}
	CHECK(!failed);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(s ? store_iter_new(s, 0, &it) : -1, 0);
	for (; it && store_iter_next(it, &e) == 1; n++)
		enters += e.type == STORE_ENTER;
	CHECK(enters == RETURNS + 1 && n == 2 * enters);
}

/* A thread whose tracing stops and starts more often than a store holds ends with a gap. */
static void test_many_segments(void)
{
	enum { SEGMENTS = 2 << 20 };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	struct call_event begin = { CALL_EVENT_SEGMENT, 0, 1, 1, 0, NULL };
	struct call_event gap = { CALL_EVENT_GAP, GAP_PAUSED, 2, 1, 0, NULL };
	struct store_event e = { 0 };
	uint32_t thread, n = 0;
	bool failed = false;

	CHECK_EQ(store_create(fd, &(struct store_meta){ .pid = 1 }, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "", &thread), 0);
	for (int i = 0; i < SEGMENTS + 10; i++) {
		failed = failed || store_thread_is_cut(w, thread) != (i > SEGMENTS) ||
			 store_event(w, thread, &begin) < 0 || store_event(w, thread, &gap) < 0;
		begin.time += 2;
		gap.time += 2;
	}
	CHECK(!failed);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(s ? store_iter_new(s, 0, &it) : -1, 0);
	for (; it && store_iter_next(it, &e) == 1; n++)
		;
	CHECK_EQ(n, SEGMENTS + 1);
	CHECK(e.type == STORE_GAP && e.kind == GAP_TRUNCATED && e.time == 1 + 2 * SEGMENTS &&
	      e.until == 2 + 2 * (SEGMENTS + 9));
	CHECK_EQ(s ? store_thread(s, 0)->gaps_of[GAP_TRUNCATED].ns : 0, 19);
}

/* csightd empties the store of a snapshot that it removes, while a reader has it open. */
static void test_emptied(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 1, 300000);
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	struct store_event e;
	int rc;

	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(store_iter_new(s, 0, &it), 0);
	CHECK_EQ(store_iter_next(it, &e), 1);
	CHECK_EQ(ftruncate(fd, 0), 0);
	while ((rc = store_iter_next(it, &e)) == 1)
		;
	CHECK_EQ(rc, -ESTALE);
	free(t->events);
	free(t);
}

/* Twice: the second renames a renamed store. */
static void test_rename(void)
{
	struct thread t[2] = { 0 };
	_cleanup_close_ int fd = make_store(t, 2, 5000), once = memfd_create("once", MFD_CLOEXEC),
			    twice = memfd_create("twice", MFD_CLOEXEC);
	_cleanup_close_ int same = memfd_create("same", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL, *a = NULL, *b = NULL, *c = NULL;
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_name other[256] = { 0 };
	size_t wrong = 0, n;

	CHECK_EQ(store_open(fd, &s), 0);
	n = store_functions(s);
	CHECK(n > 20 && n < ELEMENTS(other));
	for (size_t i = 0; i < n; i++)
		other[i] = i % 3 == 0   ? (struct store_name){ NULL, NULL, 99 }
			   : i % 3 == 1 ? (struct store_name){ "another name", NULL, 99 }
					: (struct store_name){ "a third", "a.c", 42 };
	CHECK_EQ(store_rename(s, once, other), 0);
	CHECK_EQ(store_open(once, &a), 0);
	memset(other, 0, sizeof(other));
	CHECK_EQ(store_rename(s, same, other), 0);
	CHECK_EQ(store_open(same, &c), 0);
	other[2] = (struct store_name){ "a fourth", "b.c", 43 };
	CHECK_EQ(store_rename(a, twice, other), 0);
	CHECK_EQ(store_open(twice, &b), 0);
	for (size_t i = 0; i < n; i++) {
		const struct store_function *f = store_function(s, i), *g = store_function(b, i);
		const char *name = i == 2 ? "a fourth" : i % 3 == 0 ? f->name : i % 3 == 1 ? "another name" : "a third";
		const char *file = i == 2 ? "b.c" : i % 3 == 2 ? "a.c" : f->file;

		wrong += strcmp(g->name, name) != 0 || strcmp(g->file, file) != 0;
		wrong += g->line != (i == 2 ? 43 : i % 3 == 2 ? 42 : f->line);
		wrong += strcmp(g->image, f->image) != 0 || g->address != f->address || g->kind != f->kind ||
			 g->offset != f->offset;
		wrong += strcmp(g->build_id, f->build_id) != 0 || g->calls != f->calls || g->median_ns != f->median_ns;
	}
	CHECK_EQ(wrong, 0);
	for (size_t i = 0; i < 2; i++) {
		CHECK_STR(store_thread(b, i)->name, store_thread(s, i)->name);
		CHECK_EQ(store_iter_new(c, i, &it), 0);
		CHECK(compare(c, it, &t[i], 0, SIZE_MAX) == t[i].n);
		it = store_iter_free(it);
		free(t[i].events);
	}
}

/* What the version before lacks stays unknown in a store that is made of it. */
static void test_older(void)
{
	const char *top = getenv("top_srcdir");
	_cleanup_close_ int fd = -1, to = memfd_create("recovered", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL;
	char path[4096];
	uint64_t end;

	snprintf(path, sizeof(path), "%s/tests/store/version-5/store", top ? top : "..");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_EQ(store_recover(fd, to, &end), 0);
	if (CHECK_EQ(store_open(to, &s), 0))
		CHECK(!store_has_waits(s));
}

int main(void)
{
	test_far();
	test_many_roots();
	test_many_segments();
	test_classes();
	test_round_trip(1, 0, 0);
	test_round_trip(3, 100000, 3);
	test_older();
	test_only();
	test_misuse();
	test_emptied();
	test_rename();
	return unit_end();
}
