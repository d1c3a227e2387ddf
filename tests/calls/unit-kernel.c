/* SPDX-License-Identifier: MIT */
/* lib/calls/kernel.c: where the kernel is traced, its functions are in the calls that entered it. */
#include "tests/calls/elements.h"

/* Where the kernel is traced, a system call contains what it executes; so does what an exception interrupts. */
static void test_kernel(void)
{
	begin();
	bl(MAIN);
	run(F, 1);
	taken(SYSCALL, F + 4);
	enter_kernel();
	taken(FAULT, WORK + 4);
	run(NESTED_VECTOR, 1);
	eret(NESTED_VECTOR + 4);
	run(WORK + 4, 2);
	leave_kernel();
	run(F + 4, 1);
	taken(FAULT, F + 8);
	enter_kernel();
	run(WORK + 4, 2);
	leave_kernel();
	ret(F + 8);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( syscall( kernel:vectors( tail:entry( work( kernel:vectors( ) ) ) ) ) "
	       "kernel:vectors( tail:entry( work( ) ) ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
	CHECK_EQ(counts.signals, 0);
}

/* The kernel is entered, and left, by its trampoline. */
static void test_kernel_trampoline(void)
{
	begin();
	run(MAIN, 1);
	taken(SYSCALL, MAIN + 4);
	run(TRAMP_VECTOR, 1);
	bl(TRAMP_VECTOR + 4);
	run(TRAMP_VECTOR + 12, 2);
	ret(TRAMP_VECTOR + 20);
	run(VECTOR + 4, 1);
	b(VECTOR + 8);
	run(ENTRY, 1);
	bl(ENTRY + 4);
	run(WORK, 3);
	ret(WORK + 12);
	br(ENTRY + 8);
	run(TRAMP_EXIT, 1);
	eret(TRAMP_EXIT + 4);
	run(MAIN + 4, 1);
	end(0,
	    "segment inferred:main( syscall( kernel:tramp_vectors( tramp_vectors( ) tail:vectors( tail:entry( work( ) "
	    "tail:tramp_exit( ) ) ) ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

/* The kernel returns into a signal's handler, whose return is a system call. */
static void test_kernel_signal(void)
{
	begin();
	bl(MAIN);
	run(F, 1);
	taken(SYSCALL, F + 4);
	enter_kernel();
	run(WORK + 4, 2);
	leave_kernel();
	run(HANDLER, 1);
	ret(HANDLER + 4);
	run(TRAMPOLINE, 2);
	taken(SYSCALL, TRAMPOLINE + 8);
	enter_kernel();
	run(WORK + 4, 2);
	leave_kernel();
	run(F + 4, 1);
	ret(F + 8);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( syscall( kernel:vectors( tail:entry( work( ) ) ) ) signal:handler( ) "
	       "signal:[anon]( syscall( kernel:vectors( tail:entry( work( ) ) ) ) ) ) )end");
}

/* Where the kernel switches to another thread, it stops the trace, and starts it in other code. */
static void test_kernel_switch(void)
{
	begin();
	run(MAIN, 1);
	taken(SYSCALL, MAIN + 4);
	enter_kernel();
	bl(WORK + 4);
	bl(SCHEDULE);
	bl(SWITCH_OUT);
	run(SWITCH_IN, 4);
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	run(SWITCH_IN + 8, 1);
	ret(SWITCH_IN + 12);
	ret(SCHEDULE + 8);
	run(WORK + 8, 1);
	leave_kernel();
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( syscall( kernel:vectors( tail:entry( work( __schedule( switch_out( switch_in( ) "
	       ") ) ) ) ) ) "
	       ")end");
	CHECK_EQ(counts.unwound, 0);
	CHECK_EQ(counts.unexplained, 0);
	CHECK_EQ(counts.gaps, 0);
}

/* A segment that begins in the kernel, which returns to a function of the program. */
static void test_kernel_first(void)
{
	begin();
	run(WORK, 3);
	leave_kernel();
	run(START, 1);
	taken(SYSCALL, START + 4);
	enter_kernel();
	run(WORK + 4, 2);
	leave_kernel();
	run(START + 4, 1);
	end(0, "segment inferred:work( ) root:entry( ) root:_start( syscall( kernel:vectors( tail:entry( work( ) ) ) ) "
	       ")end");
}

/* The frame of the kernel's handler is one too many. */
static void test_too_deep_in_kernel(void)
{
	begin();
	for (int i = 1; i < 1 << 16; i++) {
		bl(F);
		if (i % 1000 == 0)
			timestamp((uint64_t)i);
	}
	run(F, 1);
	timestamp(70000);
	log_text[0] = 0;
	taken(FAULT, F + 4);
	b(VECTOR);
	timestamp(70001);
	CHECK_EQ(calls_counts(calls)->gaps, 1);
	log_text[0] = 0;
	run(ENTRY, 1);
	bl(ENTRY + 4);
	run(WORK, 3);
	leave_kernel();
	run(F + 4, 1);
	ret(F + 8);
	run(F + 4, 1);
	end(0, "tail:entry( work( ) ) ) root:f( ) root:f( )end");
}

static void test_all(void)
{
	test_kernel();
	test_kernel_trampoline();
	test_kernel_signal();
	test_kernel_switch();
	test_kernel_first();
	test_too_deep_in_kernel();
}

int main(void)
{
	return test_both(test_all);
}
