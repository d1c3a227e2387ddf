/* SPDX-License-Identifier: MIT */
/* lib/calls: where the time is that threads wait, are preempted or lose trace, with and without the kernel's code. */
#include "lib/calls/calls.h"
#include "tests/calls/elements.h"

static const struct calls_pause usual[] = { { 1150, 1900, true }, { 2200, 2700, false }, { 3000, 9000, false } };

/* 100 instructions, an interrupt in which the thread is preempted, 100 more, and two system calls of which it waits in
 * the second one; then one that lasts until the end. */
static void run_with_pauses(void)
{
	set_pauses(usual, ELEMENTS(usual));
	timestamp(1000);
	for (int i = 0; i < 4; i++)
		range(MAIN, 25, INSTR_BR, SUB_NONE, true);
	exception(FAULT, MAIN);
	timestamp(1950);
	for (int i = 0; i < 4; i++)
		range(MAIN, 25, INSTR_BR, SUB_NONE, true);
	run(MAIN, 1);
	exception(SYSCALL, MAIN + 4);
	run(MAIN + 4, 1);
	exception(SYSCALL, MAIN + 8);
	timestamp(2750);
	run(MAIN + 8, 1);
	exception(SYSCALL, MAIN + 12);
}

/* Pauses lie within the exceptions and system calls of the trace. */
static void test_pauses(void)
{
	begin();
	run_with_pauses();
	end(8000, "segment inferred:main( preempted( ) syscall( ) syscall( waiting( ) ) syscall( waiting( ) )end )end");
	begin_times();
	run_with_pauses();
	end(8000, "");
	CHECK_EQ(n_times, 15);
	CHECK_EQ(times[2], 1150); /* preempted */
	CHECK_EQ(times[3], 1900);
	CHECK(times[4] >= 1950 && times[6] <= 2200);
	CHECK_EQ(times[7], 2200); /* waiting */
	CHECK_EQ(times[8], 2700);
	CHECK(times[9] >= 2700 && times[9] <= 2750);
	CHECK_EQ(times[11], 3000);
	CHECK_EQ(times[12], 8000);
}

static void context(uint8_t level)
{
	element((struct element){ .kind = ELEM_CONTEXT, .context = { .level = level, .bits = 64 } });
}

/* A system call, up to where the kernel switches to another thread. */
static void into_switch(uint64_t from)
{
	taken(SYSCALL, from);
	context(1);
	enter_kernel();
	bl(WORK + 4);
	bl(SCHEDULE);
	bl(SWITCH_OUT);
	run(SWITCH_IN, 2);
}

static void stop_and_start(void)
{
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	context(1);
}

static void out_of_switch(bool shared, uint64_t to)
{
	run(SWITCH_IN + 8, 1);
	ret(SWITCH_IN + 12);
	if (shared)
		ret(SWITCH_OUT + 4);
	ret(SCHEDULE + (shared ? 4 : 8));
	run(WORK + 8, 1);
	leave_kernel();
	context(0);
	run(to, 1);
}

static void begin_pauses(bool has_times)
{
	if (has_times)
		begin_times();
	else
		begin();
	set_pauses(usual, ELEMENTS(usual));
	timestamp(1000);
	run(MAIN, 1);
}

#define IN_SWITCH "kernel:vectors( tail:entry( work( __schedule( switch_out( switch_in( "
#define IN_FAULT "kernel:vectors( tail:entry( work( ) ) ) "
#define STOPPED IN_SWITCH ") ) preempted( ) ) ) ) ) "
#define SHARED IN_SWITCH "preempted( ) ) ) ) ) ) ) "

/*
 * The thread is preempted in a system call, and the kernel is traced. Its record of the end of that comes late. The
 * trace unit emits the time before the trace-on, or after it.
 */
static void run_with_switch(bool shared, bool before)
{
	into_switch(MAIN + 4);
	timestamp(1160);
	run(SWITCH_IN + 8, 2);
	if (before)
		timestamp(1870);
	if (shared)
		context(1);
	else
		stop_and_start();
	timestamp(1880);
	out_of_switch(shared, MAIN + 4);
	taken(FAULT, MAIN + 8);
	context(1);
	enter_kernel();
	run(WORK + 4, 2);
	leave_kernel();
	timestamp(1950);
	run(MAIN + 8, 1);
}

static void test_pauses_in_kernel(void)
{
	begin_pauses(false);
	run_with_switch(false, true);
	end(2000, "segment inferred:main( syscall( " STOPPED ") " IN_FAULT ")end");
	begin_pauses(false);
	run_with_switch(true, false);
	end(2000, "segment inferred:main( syscall( " SHARED ") " IN_FAULT ")end");
	for (int before = 0; before < 2; before++) {
		begin_pauses(true);
		run_with_switch(false, before);
		end(2000, "");
		CHECK_EQ(times[11], 1160);
		CHECK_EQ(times[12], before ? 1870 : 1880);
	}
	begin_pauses(true);
	run_with_switch(true, false);
	end(2000, "");
	CHECK_EQ(times[9], 1160);
	CHECK_EQ(times[10], 1880);
}

/* A time that the trace unit emits between the kernel's record of a switch and its stop. */
static void run_with_late_stop(bool shared)
{
	into_switch(MAIN + 4);
	timestamp(1160);
	if (shared)
		context(1);
	else
		stop_and_start();
	if (!shared)
		timestamp(1880);
	out_of_switch(shared, MAIN + 4);
	into_switch(MAIN + 8);
	timestamp(2210);
	if (shared)
		context(1);
	else
		stop_and_start();
	timestamp(2690);
	out_of_switch(shared, MAIN + 8);
	timestamp(2800);
}

static void test_late_stop(void)
{
	begin_pauses(false);
	run_with_late_stop(false);
	end(2900, "segment inferred:main( syscall( " STOPPED ") syscall( " IN_SWITCH ") ) waiting( ) ) ) ) ) ) )end");
	begin_pauses(false);
	run_with_late_stop(true);
	end(2900, "segment inferred:main( syscall( " SHARED ") syscall( " IN_SWITCH "waiting( ) ) ) ) ) ) ) ) )end");
	begin_pauses(true);
	run_with_late_stop(false);
	end(2900, "");
	CHECK_EQ(times[11], 1160);
	CHECK_EQ(times[12], 1880);
	CHECK_EQ(times[27], 2210);
	CHECK_EQ(times[28], 2690);
}

/* The thread waits until the end of the trace. */
static void test_wait_at_end(void)
{
	for (int first = 0; first < 2; first++) {
		begin_pauses(false);
		if (first)
			run_with_switch(false, true);
		into_switch(MAIN + 12);
		timestamp(3010);
		run(SWITCH_IN + 8, 1);
		end(4000, first ? "segment inferred:main( syscall( " STOPPED ") " IN_FAULT "syscall( " IN_SWITCH
				  "waiting( ) )end )end )end )end )end )end )end )end"
				: "segment inferred:main( syscall( " IN_SWITCH
				  "waiting( ) )end )end )end )end )end )end )end )end");
	}
}

/* A pause without a place of its own is not where the one before was. */
static void test_pause_elsewhere(void)
{
	begin_pauses(false);
	into_switch(MAIN + 4);
	stop_and_start();
	timestamp(1880);
	out_of_switch(false, MAIN + 4);
	timestamp(2800);
	end(2900, "segment inferred:main( syscall( " STOPPED ") )end");
}

/* The kernel's code is unknown: pauses are in system calls. */
static void test_pause_without_kernel(void)
{
	begin_pauses(false);
	taken(SYSCALL, MAIN + 4);
	context(1);
	element((struct element){ .kind = ELEM_NO_IMAGE, .address = VECTOR });
	context(0);
	run(MAIN + 4, 1);
	timestamp(1950);
	run(MAIN + 8, 1);
	end(2000, "segment inferred:main( syscall( preempted( ) )gap )gap gap:no code segment inferred:main( )end");
}

/* The thread is switched away twice in one system call, and before it in an interrupt. */
static void test_pauses_in_one_place(void)
{
	begin_pauses(false);
	exception(SYSCALL, MAIN + 4);
	timestamp(2750);
	run(MAIN + 4, 1);
	end(2800, "segment inferred:main( syscall( preempted( ) waiting( ) ) )end");
	begin_pauses(true);
	exception(FAULT, MAIN + 4);
	run(MAIN + 4, 1);
	exception(SYSCALL, MAIN + 8);
	run(MAIN + 8, 1);
	end(8000, "");
	CHECK_EQ(times[2], 1150);
	CHECK_EQ(times[3], 1900);
	CHECK_EQ(times[4], 2200);
	CHECK_EQ(times[5], 2700);
	CHECK_EQ(times[7], 3000);
	CHECK_EQ(times[8], 8000);
}

/* Events as text, with the times of pauses and gaps. */
static int on_timed(void *user, const struct call_event *e)
{
	size_t length;

	on_event(user, e);
	length = strlen(log_text);
	if (length && (e->type == CALL_EVENT_GAP ||
		       (e->function && (e->function->kind == REGION_WAITING || e->function->kind == REGION_PREEMPTED))))
		snprintf(log_text + length - 1, sizeof(log_text) - length + 1, "@%llu ", (unsigned long long)e->time);
	return 0;
}

static void begin_timed(const struct calls_pause *list, size_t n)
{
	static const struct calls_sink sink = { on_timed, NULL };

	begin();
	calls_free(calls);
	calls_new(regions, &sink, &calls);
	set_pauses(list, n);
	timestamp(1000);
}

/* Calls, an interrupt that does not pause the thread, more calls, and then trace is lost. */
static void run_to_gap(void)
{
	bl(MAIN);
	run(F, 10);
	taken(FAULT, F + 40);
	stop_and_start();
	run(F + 40, 10);
	ret(F + 80);
	run(MAIN + 4, 20);
	bl(MAIN + 84);
	run(G, 30);
	no_sync(REASON_TRUNCATED);
	run(H, 5);
	timestamp(10000);
	run(H + 20, 1);
}

/* What happens in a gap is not shown in an exception before it. */
static void test_pause_in_gap(void)
{
	static const struct calls_pause in_gap = { 5000, 9000, false },
					several[] = { { 1150, 2000, false },
						      { 4000, 5000, false },
						      { 8000, 9000, true } },
					after_switch[] = { { 1150, 1900, true }, { 3000, 9000, false } };

	begin_timed(&in_gap, 1);
	run_to_gap();
	end(0, "segment inferred:main( f( ) g( )gap )gap gap:truncated@1073 segment inferred:h( )end");
	/* The thread was in this system call when it was switched away. */
	begin_timed(several, ELEMENTS(several));
	run(MAIN, 10);
	taken(SYSCALL, MAIN + 40);
	no_sync(REASON_TRUNCATED);
	run(H, 5);
	timestamp(10000);
	run(H + 20, 1);
	end(0, "segment inferred:main( syscall( waiting(@1150 )@2000 )gap )gap gap:truncated@5997 segment inferred:h( "
	       ")end");
	/* Each switch of a kernel that is traced is a pause. */
	begin_timed(after_switch, ELEMENTS(after_switch));
	run(MAIN, 1);
	into_switch(MAIN + 4);
	stop_and_start();
	out_of_switch(false, MAIN + 4);
	bl(MAIN + 8);
	run(F, 10);
	no_sync(REASON_TRUNCATED);
	run(H, 5);
	timestamp(10000);
	run(H + 20, 1);
	end(0, "segment inferred:main( syscall( " IN_SWITCH ") ) preempted(@1150 )@1900 ) ) ) ) ) f( )gap )gap "
	       "gap:truncated@5956 segment inferred:h( )end");
}

/* The record of a switch comes before the time at which its trace stops; there is no time between two switches. */
static void test_late_stop_without_time(void)
{
	static const struct calls_pause list[] = { { 1150, 1900, true }, { 2200, 9700, false } };

	begin_timed(list, ELEMENTS(list));
	run(MAIN, 1);
	into_switch(MAIN + 4);
	stop_and_start();
	out_of_switch(false, MAIN + 4);
	into_switch(MAIN + 8);
	timestamp(2210);
	stop_and_start();
	timestamp(9690);
	out_of_switch(false, MAIN + 8);
	timestamp(9800);
	end(9900, "segment inferred:main( syscall( " IN_SWITCH ") ) preempted(@1150 )@1900 ) ) ) ) ) "
		  "syscall( " IN_SWITCH ") ) waiting(@2210 )@9690 ) ) ) ) ) )end");
}

/* A time within a pause divides it; the second part is where the first one was. */
static void test_divided_pause(void)
{
	static const struct calls_pause list[] = { { 1150, 9000, false } };

	begin_timed(list, ELEMENTS(list));
	run(MAIN, 1);
	exception(SYSCALL, MAIN + 4);
	timestamp(1160);
	run(MAIN + 4, 1);
	bl(MAIN + 8);
	run(F, 49);
	exception(FAULT, F + 196);
	run(F + 196, 2);
	ret(F + 204);
	run(MAIN + 12, 1);
	timestamp(20000);
	end(0, "segment inferred:main( syscall( waiting(@1150 )@1160 waiting(@1160 )@9000 ) f( ) )end");
}

/* What ran before the last pause is not added to the end. */
static void test_end_after_pause(void)
{
	static const struct calls_pause list[] = { { 2000, 3000, true } };

	begin_times();
	set_pauses(list, 1);
	timestamp(1000);
	for (int i = 0; i < 100; i++)
		range(MAIN, 10, INSTR_BR, SUB_NONE, true);
	exception(FAULT, MAIN);
	run(MAIN, 5);
	end(100000, "");
	CHECK_EQ(times[n_times - 1], 3005);
}

static void test_firmware_call(bool in_vector)
{
	begin();
	for (int i = 0; i < 2; i++) {
		run(MAIN, 1);
		taken(SYSCALL, MAIN + 4);
		context(1);
		run(VECTOR, 1);
		if (in_vector) {
			taken(SYSCALL, VECTOR + 4);
			stop_and_start();
		}
		b(VECTOR + 4);
		run(ENTRY, 1);
		bl(ENTRY + 4);
		run(WORK, 1);
		if (!in_vector) {
			taken(FAULT, WORK + 4);
			stop_and_start();
		}
		ret(WORK + 4);
		eret(ENTRY + 8);
		context(0);
		run(MAIN + 4, 1);
		b(MAIN + 8);
	}
	end(0, "segment inferred:main( syscall( " IN_FAULT ") syscall( " IN_FAULT ") )end");
	CHECK_EQ(counts.syscalls, 2);
	CHECK_EQ(counts.unexplained, 0);
}

/* A firmware call is the last instruction of a function, and what follows is the next one. */
static void test_firmware_call_at_end(void)
{
	begin();
	run(WORK, 64);
	taken(SYSCALL, SCHEDULE);
	stop_and_start();
	run(SCHEDULE, 2);
	end(0, "segment inferred:work( tail:__schedule( )end )end");
}

/* The kernel is traced, but no switch of it yet: a system call takes as long as its instructions. */
static void test_kernel_without_switch(void)
{
	begin_times();
	timestamp(1000);
	for (int i = 0; i < 10; i++)
		range(MAIN, 10, INSTR_BR, SUB_NONE, true);
	run(MAIN, 1);
	taken(SYSCALL, MAIN + 4);
	context(1);
	enter_kernel();
	for (int i = 0; i < 100; i++)
		range(WORK + 4, 10, INSTR_BR, SUB_NONE, true);
	run(WORK + 4, 2);
	leave_kernel();
	context(0);
	for (int i = 0; i < 10; i++)
		range(i ? MAIN : MAIN + 4, 10, INSTR_BR, SUB_NONE, true);
	timestamp(13000);
	end(0, "");
	/* main, syscall, vectors, entry, work */
	CHECK_EQ(n_times, 11);
	CHECK(times[3] - times[2] < 20);
	CHECK(times[6] - times[5] > 9000);
}

/* The kernel alone is traced, and what the thread does between its entries is not known. */
static void test_kernel_alone(void)
{
	begin();
	for (int i = 0; i < 2; i++) {
		stop_and_start();
		enter_kernel();
		run(WORK + 4, 2);
		leave_kernel();
	}
	end(0, "segment inferred:vectors( tail:entry( work( ) )gap )gap gap:paused "
	       "segment inferred:vectors( tail:entry( work( ) )end )end");
}

/* After a fault that it expects, a function goes on elsewhere, also if nothing called it in the trace. */
static void test_fixup(void)
{
	begin();
	run(F, 2);
	exception(FAULT, F + 8);
	run(F + 0x80, 1);
	ret(F + 0x84);
	run(MAIN + 4, 1);
	end(0, "segment inferred:f( uncertain ) certain root:main( )end");
}

static void test_all(void)
{
	test_pauses();
	test_pauses_in_kernel();
	test_pauses_in_one_place();
	test_late_stop();
	test_wait_at_end();
	test_pause_elsewhere();
	test_pause_without_kernel();
	test_pause_in_gap();
	test_late_stop_without_time();
	test_divided_pause();
	test_end_after_pause();
	test_firmware_call(true);
	test_firmware_call(false);
	test_firmware_call_at_end();
	test_kernel_without_switch();
	test_kernel_alone();
	test_fixup();
}

int main(void)
{
	return test_both(test_all);
}
