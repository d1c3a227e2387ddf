/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf/watch-repeats.c: which hits are earlier ones once more. */
#include "daemon/capture/perf/watch-repeats.h"
#include "tests/unit.h"

static struct watch_repeats repeats;

static struct watch_registers at(uint64_t pc, uint64_t sp, uint64_t argument)
{
	return (struct watch_registers){ { [WATCH_PC] = pc, [WATCH_SP] = sp, [WATCH_OTHERS] = argument } };
}

static bool again(uint32_t tid, uint64_t pc, uint64_t sp, uint64_t argument)
{
	const struct watch_registers r = at(pc, sp, argument);

	return watch_repeats_hit(&repeats, tid, &r);
}

static void deliver(uint32_t tid, uint64_t pc, uint64_t sp, uint64_t argument)
{
	const struct watch_registers r = at(pc, sp, argument);

	watch_repeats_deliver(&repeats, tid, &r);
}

static void test_one(void)
{
	CHECK(!again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(again(7, 0x10, 0x900, 1));
	/* The instruction is executed, then reached again. */
	CHECK(!again(7, 0x10, 0x900, 1));
	/* Two signals, one after the other; then two at once, of which the second interrupts the handler of the first.
	 */
	deliver(7, 0x10, 0x900, 1);
	CHECK(again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	deliver(7, 0x500, 0x800, 1);
	CHECK(again(7, 0x10, 0x900, 1));
	CHECK(!again(7, 0x10, 0x900, 1));
}

static void test_others(void)
{
	/* Another thread, on its own stack; another place, stack pointer or argument. */
	CHECK(!again(7, 0x10, 0x900, 1));
	CHECK(!again(8, 0x10, 0x1900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(8, 0x10, 0x1900, 1));
	CHECK(!again(7, 0x20, 0x800, 1));
	CHECK(!again(7, 0x10, 0x700, 1));
	CHECK(again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x900, 2));
	/* A signal that comes before the first hit, or elsewhere. */
	watch_repeats_drop(&repeats, 0);
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x900, 1));
	deliver(7, 0x14, 0x900, 1);
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x900, 1));
	CHECK_EQ(repeats.n, 1);
}

static void test_nested(void)
{
	/* In the handler are a hit, a signal at it, and in the handler of that one hits, too. */
	watch_repeats_drop(&repeats, 0);
	CHECK(!again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x700, 1));
	deliver(7, 0x10, 0x700, 1);
	for (unsigned i = 0; i < 100; i++)
		CHECK(!again(7, 0x10, 0x500, 1));
	CHECK_EQ(repeats.n, 3);
	CHECK(again(7, 0x10, 0x700, 1));
	CHECK_EQ(repeats.n, 2);
	CHECK(again(7, 0x10, 0x900, 1));
	CHECK_EQ(repeats.n, 1);
	/* On a stack of its own, which is above. */
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x1900, 1));
	CHECK(again(7, 0x10, 0x900, 1));
}

static void test_moved(void)
{
	/* What is interrupted in one thread continues in another; thereafter both have new hits there. */
	watch_repeats_drop(&repeats, 0);
	CHECK(!again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(again(8, 0x10, 0x900, 1));
	CHECK(!again(8, 0x10, 0x900, 1));
	CHECK(!again(7, 0x10, 0x900, 1));
	/* The first thread has meanwhile another stack, which is interrupted, too. */
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x1900, 1));
	deliver(7, 0x10, 0x1900, 1);
	CHECK(again(8, 0x10, 0x900, 1));
	CHECK(again(7, 0x10, 0x1900, 1));
	/* It moves without a signal, and is interrupted there. */
	CHECK(!again(9, 0x10, 0x900, 1));
	deliver(9, 0x10, 0x900, 1);
	watch_repeats_drop(&repeats, 8);
	CHECK(again(9, 0x10, 0x900, 1));
}

static void test_left(void)
{
	/* A handler leaves by longjmp(): what follows with the same stack pointer is new. */
	watch_repeats_drop(&repeats, 0);
	CHECK(!again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x900, 2));
	CHECK(!again(7, 0x10, 0x900, 1));
	CHECK_EQ(repeats.n, 1);
	deliver(7, 0x10, 0x900, 1);
	deliver(7, 0x30, 0x900, 1);
	CHECK_EQ(repeats.n, 0);
	/* So do several, one in the other, and the first one's place continues. */
	CHECK(!again(7, 0x10, 0x900, 1));
	deliver(7, 0x10, 0x900, 1);
	CHECK(!again(7, 0x10, 0x800, 1));
	deliver(7, 0x10, 0x800, 1);
	CHECK(!again(7, 0x10, 0x700, 1));
	deliver(7, 0x10, 0x700, 1);
	CHECK_EQ(repeats.n, 3);
	CHECK(again(7, 0x10, 0x900, 1));
	CHECK_EQ(repeats.n, 1);
}

static void test_limits(void)
{
	unsigned wrong = 0;

	/* A thread ends within handlers, others remain. */
	watch_repeats_drop(&repeats, 0);
	for (uint32_t tid = 7; tid < 9; tid++)
		for (unsigned i = 0; i < 5; i++) {
			again(tid, 0x10, tid * 0x1000 - i, 1);
			deliver(tid, 0x10, tid * 0x1000 - i, 1);
		}
	CHECK_EQ(repeats.n, 10);
	watch_repeats_drop(&repeats, 7);
	CHECK_EQ(repeats.n, 5);
	CHECK(!again(7, 0x10, 0x7000, 1));
	CHECK(again(8, 0x10, 0x8000, 1));
	/* The newest of too many are remembered. */
	watch_repeats_drop(&repeats, 0);
	for (unsigned i = 1; i <= 2 * WATCH_REPEATS_MAX; i++) {
		wrong += again(7, 0x10, 0x100000 - i, 1);
		deliver(7, 0x10, 0x100000 - i, 1);
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(repeats.n, WATCH_REPEATS_MAX);
	CHECK(!again(7, 0x10, 0x100000 - WATCH_REPEATS_MAX, 1));
	CHECK(again(7, 0x10, 0x100000 - 2 * WATCH_REPEATS_MAX, 1));
	watch_repeats_done(&repeats);
}

int main(void)
{
	test_one();
	test_others();
	test_nested();
	test_moved();
	test_left();
	test_limits();
	return unit_end();
}
