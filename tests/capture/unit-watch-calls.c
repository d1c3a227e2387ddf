/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf/watch-calls.c: which calls end where, and which are of unknown duration. */
#include "daemon/capture/perf/watch-calls.h"
#include "tests/unit.h"

static struct watch_calls calls;
static unsigned unknown, dropped;
static uint64_t ns, goroutine;

static struct watch_moment at(uint32_t tid, uint64_t sp, uint64_t lr, uint64_t time)
{
	return (struct watch_moment){ .slot = 1, .tid = tid, .goroutine = goroutine, .sp = sp, .lr = lr, .time = time };
}

static unsigned enter(uint32_t tid, uint64_t sp, uint64_t lr, uint64_t time)
{
	const struct watch_moment m = at(tid, sp, lr, time);

	return watch_calls_enter(&calls, &m);
}

static bool leave(uint32_t tid, uint64_t sp, uint64_t lr, uint64_t time)
{
	const struct watch_moment m = at(tid, sp, lr, time);

	return watch_calls_leave(&calls, &m, &ns, &unknown);
}

static void drop(void *data, uint32_t slot)
{
	dropped += slot;
}

static void test_recursion(void)
{
	CHECK_EQ(enter(7, 0x900, 0x10, 100), 0);
	CHECK_EQ(enter(7, 0x800, 0x20, 200), 0);
	CHECK_EQ(enter(8, 0x900, 0x10, 210), 0);
	CHECK(!leave(7, 0x700, 0x20, 220)); /* of a function with the same end */
	CHECK(!leave(7, 0x800, 0x30, 220));
	CHECK(leave(7, 0x800, 0x20, 250) && ns == 50 && unknown == 0);
	CHECK(leave(7, 0x900, 0x10, 400) && ns == 300 && unknown == 0);
	CHECK(!leave(7, 0x900, 0x10, 500));
	/* A signed return address. */
	CHECK(leave(8, 0x900, 0xab00000000000010, 500) && ns == 290);
}

static void test_left(void)
{
	/* An exception leaves the inner call, which the outer one ends after. */
	enter(7, 0x900, 0x10, 100);
	enter(7, 0x800, 0x20, 200);
	enter(9, 0x800, 0x20, 200);
	CHECK(leave(7, 0x900, 0x10, 400) && ns == 300 && unknown == 1);
	CHECK(!leave(7, 0x800, 0x20, 500));
	CHECK(leave(9, 0x800, 0x20, 500));
	/* longjmp() leaves a call, and another is entered with its stack pointer. */
	enter(7, 0x900, 0x10, 100);
	CHECK_EQ(enter(7, 0x900, 0x10, 300), 1);
	CHECK(leave(7, 0x900, 0x10, 350) && ns == 50);
	CHECK(!leave(7, 0x900, 0x10, 360));
}

static void test_goroutines(void)
{
	/* One goes on in another thread, where the first one then runs another goroutine. */
	goroutine = 0x4000;
	enter(7, 0x900, 0x10, 100);
	goroutine = 0x5000;
	enter(7, 0x800, 0x10, 200);
	watch_calls_drop(&calls, 7, drop, NULL);
	CHECK_EQ(dropped, 0);
	goroutine = 0x4000;
	CHECK(leave(8, 0x900, 0x10, 400) && ns == 300 && unknown == 0);
	/* The stack has moved: the return address is that of one call. */
	goroutine = 0x5000;
	CHECK(!leave(8, 0x1800, 0x20, 410));
	CHECK(leave(8, 0x1800, 0x10, 410) && ns == 210 && unknown == 0);
	/* A recursion, in which it has moved, with a call since then: it is unknown which call ends, but for the last.
	 */
	enter(7, 0x900, 0x10, 100);
	enter(7, 0x800, 0x20, 200);
	enter(7, 0x700, 0x20, 300);
	enter(7, 0x1600, 0x20, 400);
	CHECK(leave(7, 0x1600, 0x20, 500) && ns == 100 && unknown == 0);
	CHECK(!leave(7, 0x1700, 0x20, 600) && unknown == 1);
	CHECK(leave(7, 0x1800, 0x20, 700) && ns == 500 && unknown == 0);
	CHECK(leave(7, 0x1900, 0x10, 800) && ns == 700 && unknown == 0);
	CHECK_EQ(calls.n, 0);
	/* One that has ended in a call, by runtime.Goexit(); the next one in its place is in the same call. */
	enter(7, 0x900, 0x10, 100);
	CHECK_EQ(enter(9, 0x900, 0x10, 900), 1);
	CHECK(leave(9, 0x900, 0x10, 950) && ns == 50 && unknown == 0);
	/* Where many have, the oldest calls are dropped. */
	unknown = 0;
	for (goroutine = 1; goroutine <= WATCH_CALLS_MAX; goroutine++)
		unknown += enter(7, 0x900, 0x10, goroutine);
	CHECK_EQ(unknown, 0);
	CHECK_EQ(enter(7, 0x900, 0x10, goroutine), 1);
	CHECK(leave(7, 0x900, 0x10, goroutine + 5) && ns == 5);
	goroutine = 1;
	CHECK(!leave(7, 0x900, 0x10, 5));
	watch_calls_done(&calls);
	goroutine = 0;
}

static void test_limits(void)
{
	enter(7, 0x900, 0x10, 100);
	enter(8, 0x900, 0x10, 100);
	watch_calls_drop(&calls, 7, drop, NULL);
	CHECK_EQ(dropped, 1);
	CHECK(!leave(7, 0x900, 0x10, 200));
	CHECK(leave(8, 0x900, 0x10, 200));
	for (unsigned i = 0; i < WATCH_CALLS_MAX; i++)
		unknown += enter(i + 1, 0x900, 0x10, i);
	CHECK_EQ(unknown, 0);
	CHECK_EQ(enter(WATCH_CALLS_MAX + 1, 0x900, 0x10, 1), 1);
	dropped = 0;
	watch_calls_drop(&calls, 0, drop, NULL);
	CHECK_EQ(dropped, WATCH_CALLS_MAX);
	watch_calls_done(&calls);
}

int main(void)
{
	test_recursion();
	test_left();
	test_goroutines();
	test_limits();
	return unit_end();
}
