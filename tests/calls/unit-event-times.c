/* SPDX-License-Identifier: MIT */
/* lib/calls/event-times.c: the times of events, by timestamps, cycles and instructions. */
#include "lib/calls/event-times.h"
#include "tests/calls/elements.h"

static void test_times(void)
{
	struct calls_sink sink = { on_time, NULL };

	begin();
	calls_free(calls);
	calls_new(regions, &sink, &calls);
	n_times = 0;
	timestamp(1000);
	run(MAIN, 49);
	bl(MAIN + 0xc4);
	run(F, 49);
	timestamp(1200); /* f was entered in the middle */
	ret(F + 0xc4);
	/* A hundred instructions at 2 ns, then a system call that takes the rest. */
	for (int i = 0; i < 5; i++)
		range(i ? MAIN : MAIN + 0xc8, 13, INSTR_BR, SUB_NONE, true);
	run(MAIN, 34);
	exception(SYSCALL, MAIN + 0x88);
	run(MAIN + 0x88, 1);
	timestamp(11200);
	end(12000, "");
	CHECK_EQ(n_times, 7);
	CHECK_EQ(times[0], 1000);                      /* segment */
	CHECK_EQ(times[1], 1000);                      /* main */
	CHECK(times[2] >= 1100 && times[2] <= 1102);   /* f */
	CHECK(times[3] >= 1200 && times[3] <= 1203);   /* f returns */
	CHECK(times[4] >= 1395 && times[4] <= 1405);   /* syscall */
	CHECK(times[5] >= 11190 && times[5] <= 11200); /* back */
	CHECK(times[6] >= 11200 && times[6] <= 12000);
	CHECK_EQ(counts.bound, 10000);

	/* A system call that lasts until the freeze; decreasing timestamps; no timestamp at all. */
	begin();
	calls_free(calls);
	calls_new(regions, &sink, &calls);
	n_times = 0;
	timestamp(1000);
	run(MAIN, 10);
	timestamp(900);
	timestamp(1100);
	exception(SYSCALL, MAIN + 40);
	end(5000, "");
	CHECK_EQ(n_times, 5);
	CHECK_EQ(times[2], 1100);
	CHECK_EQ(times[3], 5000);
	CHECK_EQ(times[4], 5000);
	CHECK_EQ(counts.backwards, 1);
}

static void cycles(uint32_t n)
{
	element((struct element){ .kind = ELEM_CYCLES, .has_cycles = true, .cycles = n });
}

/* Cycles that are counted within a single range after a call. */
static void test_cycles_of_call(void)
{
	begin_times();
	timestamp(1000);
	bl(MAIN);
	cycles(100);
	ret(F);
	cycles(300);
	run(MAIN + 4, 1);
	cycles(200);
	timestamp(1600);
	end(0, "");
	CHECK(n_times == 5 && times[2] == 1100 && times[3] == 1400);
}

/* Cycle counts are preferred to instructions; a count across a timestamp is divided. */
static void test_cycles(void)
{
	begin_times();
	timestamp(1000);
	run(MAIN, 49);
	bl(MAIN + 0xc4);
	cycles(800);
	run(F, 49);
	ret(F + 0xc4);
	cycles(200);
	run(MAIN + 0xc8, 10); /* no count for these: as many as for those before, 100 */
	timestamp(2000);
	run(MAIN + 0xf0, 1);
	run(MAIN, 8);
	bl(MAIN + 0x20);
	cycles(200);
	run(F, 29);
	ret(F + 0x74);
	cycles(300);
	run(MAIN + 0x24, 0);
	timestamp(2400);
	end(0, "");
	CHECK_EQ(n_times, 7);
	CHECK_EQ(times[2], 1727); /* f: 800 of 1100 */
	CHECK_EQ(times[3], 1909); /* 1000 of them */
	CHECK_EQ(times[4], 2100); /* half of 200, of 400 */
	CHECK_EQ(times[5], 2400);

	/* Cycles counted during a system call are unusable. */
	begin_times();
	timestamp(1000);
	run(MAIN, 49);
	bl(MAIN + 0xc4);
	cycles(100);
	for (int i = 0; i < 5; i++)
		range(F, 10, INSTR_BR, SUB_NONE, true);
	cycles(300);
	timestamp(1200);
	for (int i = 0; i < 5; i++)
		range(F, 10, INSTR_BR, SUB_NONE, true);
	cycles(200);
	exception(SYSCALL, F);
	cycles(70000);
	run(F, 49);
	ret(F + 0xc4);
	cycles(200);
	run(MAIN + 0xc8, 0);
	timestamp(9000);
	end(0, "");
	CHECK_EQ(n_times, 7);
	CHECK_EQ(times[2], 1050);
	CHECK(times[3] >= 1295 && times[3] <= 1305); /* the system call: a cycle takes 0.5 ns */
	CHECK(times[4] >= 8895 && times[4] <= 8905);
}

/* A clock coarser than the spacing of timestamps: events between equal timestamps wait for the next different one. */
static void test_ties(void)
{
	begin_times();
	calls_set_resolution(calls, 40);
	timestamp(1000);
	run(MAIN, 9);
	bl(MAIN + 0x24);
	timestamp(1000);
	run(F, 9);
	ret(F + 0x24);
	timestamp(1000);
	run(MAIN + 0x28, 10);
	timestamp(1300);
	end(0, "");
	CHECK_EQ(n_times, 5);
	CHECK_EQ(times[2], 1100);
	CHECK_EQ(times[3], 1200);
	CHECK_EQ(counts.bound, 340);
}

/* Times that had to be guessed are later than the timestamps that follow. */
static void test_guess_ahead(void)
{
	uint64_t guessed;

	begin_times();
	timestamp(1000);
	run(MAIN, 1);
	for (int i = 0; i < EVENT_TIMES_MAX * 3 / 4; i++) {
		bl(MAIN + 4);
		ret(F);
		b(MAIN + 8);
	}
	timestamp(2000);
	guessed = log_last;
	batch_end();
	CHECK(guessed > 40000);
	CHECK_EQ(calls_counts(calls)->bound, guessed - 1000);
	/* What executes from here to the next timestamp took 1000 ns, not none. */
	n_times = 0;
	range(MAIN + 4, 50, INSTR_BR, SUB_NONE, true);
	range(MAIN + 4, 50, INSTR_BR, SUB_NONE, true);
	timestamp(3000);
	range(MAIN + 4, 50, INSTR_BR, SUB_NONE, true);
	run(MAIN + 4, 50);
	exception(SYSCALL, MAIN + 4 + 200);
	run(MAIN + 4 + 200, 1);
	timestamp(100000);
	end(0, "");
	CHECK_EQ(times[0], guessed + 100);
}

/* So much follows a pause without a timestamp that its times are guessed. */
static void test_pause_before_guess(void)
{
	static const struct calls_pause preempted = { 1150, 1900, true };

	begin_times();
	set_pauses(&preempted, 1);
	timestamp(1000);
	run(MAIN, 1);
	for (int i = 0; i < 40; i++)
		range(MAIN + 4, 32, INSTR_BR, SUB_NONE, true);
	timestamp(1001);
	bl(MAIN + 4);
	run(F, 1);
	exception(SYSCALL, F + 4);
	for (int i = 0; i < EVENT_TIMES_MAX * 3 / 4; i++) {
		bl(F + 4);
		ret(G);
		b(F + 8);
	}
	timestamp(1950);
	end(0, "");
}

static void event(uint64_t value)
{
	element((struct element){ .kind = ELEM_EVENT, .value = value });
}

/* A system call as the emulated trace unit writes it: number 98, beginning, parts, end. */
static void emulated_call(const uint64_t *stamps, size_t n, bool returns)
{
	struct element e = { .kind = ELEM_EXCEPTION,
			     .exception = { .syscall = true, .has_ret = true, .ret = MAIN + 40 } };

	run(MAIN, 10);
	element(e);
	event(1);
	event(7);
	event(9);
	for (size_t i = 0; i < n; i++)
		timestamp(stamps[i]);
	if (returns)
		element((struct element){ .kind = ELEM_EXCEPTION_RETURN });
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	range(MAIN + 40, 1, INSTR_BR, SUB_NONE, true);
}

static void test_emulated_calls(void)
{
	const uint64_t wall[] = { 1010, 1030, 1100, 1120 }, virtual[] = { 1131, 1200 }, none[] = { 1211, 1211 };

	begin();
	calls_set_emulated(calls, false);
	timestamp(1000);
	emulated_call(wall, 4, true);
	end(0, "segment inferred:main( futex( waiting( ) preempted( ) ) )end");
	begin();
	calls_set_emulated(calls, true);
	timestamp(1121);
	emulated_call(virtual, 2, true);
	emulated_call(none, 2, true);
	end(0, "segment inferred:main( futex( waiting( ) ) futex( ) )end");
	begin_times();
	calls_set_emulated(calls, true);
	timestamp(1121);
	emulated_call(virtual, 2, true);
	emulated_call(none, 2, true);
	end(0, "");
	/* segment, main, futex, waiting, back, back; futex, back; main */
	CHECK_EQ(n_times, 9);
	CHECK(times[2] == 1131 && times[3] == 1131 && times[4] == 1200 && times[5] == 1200);
	CHECK(times[6] == 1211 && times[7] == 1211 && times[8] == 1212);
	CHECK_EQ(counts.bound, 0);
	/* Tracing was stopped in the call: what was executed until it began again is a gap. */
	begin();
	calls_set_emulated(calls, true);
	timestamp(1121);
	emulated_call(virtual, 1, false);
	end(0, "segment inferred:main( futex( )gap )gap gap:paused segment inferred:main( )end");
	/* A thread that is blocked at the end is so until then. */
	begin();
	calls_set_emulated(calls, true);
	timestamp(1000);
	run(MAIN, 10);
	element((struct element){ .kind = ELEM_EXCEPTION,
				  .exception = { .syscall = true, .has_ret = true, .ret = MAIN + 40 } });
	timestamp(1010);
	end(5000, "segment inferred:main( syscall( waiting( )end )end )end");
}

static void test_all(void)
{
	test_times();
	test_cycles();
	test_cycles_of_call();
	test_ties();
	test_guess_ahead();
	test_pause_before_guess();
	test_emulated_calls();
}

int main(void)
{
	return test_both(test_all);
}
