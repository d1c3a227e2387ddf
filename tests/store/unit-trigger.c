/* SPDX-License-Identifier: MIT */
/* lib/store/trigger-call.c: which call a hit is about, where times are known to a bound only. */
#include "config.h"

#include <sys/mman.h>

#include "lib/store/trigger-call.h"
#include "tests/unit.h"

/* A call or a part of one, all in one thread. */
struct part {
	uint8_t entered, left;
	uint64_t from, to;
	const struct region *syscall; /* NULL: it is a call of a function */
};

static void write_store(int fd, const struct store_trigger *trigger, uint64_t bound, const struct part *parts, size_t n)
{
	static const struct region outer = { .name = "outer", .image = "/a" };
	static const struct region planted = { .start = 0x1000, .name = "planted", .image = "/a" };
	const struct store_meta meta = {
		.pid = 1, .program = "a", .source = "emu", .clock = "virtual", .trigger = *trigger
	};
	struct store_writer *w = NULL;
	uint32_t thread;
	int rc;

	CHECK_EQ(store_create(fd, &meta, &w), 0);
	rc = store_thread_add(w, trigger->tid, "a", &thread);
	for (size_t i = 0; i < n; i++) {
		const struct part *p = &parts[i];
		struct call_event events[] = {
			{ .type = CALL_EVENT_SEGMENT, .time = p->from },
			{ .type = CALL_EVENT_ENTER, .kind = CALL_INFERRED, .time = p->from, .function = &outer },
			{ .type = CALL_EVENT_ENTER,
			  .kind = p->entered,
			  .time = p->from,
			  .function = p->syscall ? p->syscall : &planted },
			{ .type = CALL_EVENT_LEAVE, .kind = p->left, .time = p->to },
			{ .type = CALL_EVENT_LEAVE, .kind = LEAVE_GAP, .time = p->to },
			{ .type = CALL_EVENT_GAP, .time = p->to },
		};

		for (size_t k = 0; rc == 0 && k < ELEMENTS(events); k++) {
			events[k].bound = bound;
			rc = store_event(w, thread, &events[k]);
		}
	}
	CHECK_EQ(rc, 0);
	CHECK_EQ(store_thread_end(w, thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	store_writer_free(w);
}

/*
 * Returns when the call begins that a hit is about, which came at that time by a call of that duration; 0: none.
 * condition: NULL for calls of the function.
 */
static uint64_t marked_of(char *condition, uint64_t time, uint64_t value, uint64_t bound, const struct part *parts,
			  size_t n)
{
	const struct store_trigger trigger = { .condition = condition ? condition : "function planted longer-than 1us",
					       .function = condition ? NULL : "planted",
					       .tid = 7,
					       .time = time,
					       .timed = true,
					       .value = value };
	_cleanup_close_ int fd = memfd_create("store", MFD_CLOEXEC);
	struct store_found_call call = { 0 };
	struct store *s = NULL;
	int rc;

	write_store(fd, &trigger, bound, parts, n);
	CHECK_EQ(store_open(fd, &s), 0);
	rc = store_trigger_call(s, &call);
	CHECK(rc >= 0);
	store_close(s);
	return rc == 1 ? call.frame.enter : 0;
}

static uint64_t marked(uint64_t time, uint64_t value, uint64_t bound, const struct part *parts, size_t n)
{
	return marked_of(NULL, time, value, bound, parts, n);
}

/* A goroutine left this thread in a call, another one goes on with its own call here, and ends it. */
static void test_switched(void)
{
	static const struct part parts[] = { { CALL_PLAIN, LEAVE_SWITCH, 1000, 1010 },
					     { CALL_RESUMED, LEAVE_RETURN, 5000, 8000 } };

	CHECK_EQ(marked(8000, 6050, 0, parts, 2), 5000);
	CHECK_EQ(marked(8000, 6050, 100000, parts, 2), 5000);
	CHECK_EQ(marked(8000, 6050, 100000, parts, 1), 0);
}

/* Of whole calls, the one that ended then, and took so long. */
static void test_whole(void)
{
	static const struct part parts[] = { { CALL_PLAIN, LEAVE_RETURN, 1000, 1010 },
					     { CALL_PLAIN, LEAVE_RETURN, 2000, 8000 },
					     { CALL_PLAIN, LEAVE_RETURN, 8100, 8110 } };

	CHECK_EQ(marked(8000, 6000, 0, parts, 3), 2000);
	CHECK_EQ(marked(8020, 6010, 100000, parts, 3), 2000);
	CHECK_EQ(marked(8020, 6010, 0, parts, 3), 0);
}

/* Where the bound admits several system calls, one with another name is not the one. */
static void test_syscalls(void)
{
	static char condition[] = "syscall nanosleep longer-than 1us";
	static const struct region unnamed = { .kind = REGION_SYSCALL, .name = "syscall", .image = "/a" },
				   other = { .kind = REGION_SYSCALL, .name = "rt_sigprocmask", .image = "/a" },
				   wanted = { .kind = REGION_SYSCALL, .name = "nanosleep", .image = "/a" },
				   longer = { .kind = REGION_SYSCALL, .name = "nanosleep2", .image = "/a" };
	struct part parts[] = { { CALL_SYSCALL, LEAVE_RETURN, 1000, 1010, &other },
				{ CALL_SYSCALL, LEAVE_RETURN, 2000, 8000, &wanted },
				{ CALL_SYSCALL, LEAVE_RETURN, 8100, 8110, &longer } };

	CHECK_EQ(marked_of(condition, 8000, 6050, 100000, parts, 3), 2000);
	CHECK_EQ(marked_of(condition, 1010, 10, 100000, parts, 3), 2000);
	CHECK_EQ(marked_of(condition, 1010, 10, 100000, parts, 1), 0);
	parts[0].syscall = &unnamed;
	CHECK_EQ(marked_of(condition, 1010, 10, 100000, parts, 3), 1000);
}

int main(void)
{
	test_syscalls();
	test_switched();
	test_whole();
	return unit_end();
}
