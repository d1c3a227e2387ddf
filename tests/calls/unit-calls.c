/* SPDX-License-Identifier: MIT */
/* lib/calls: elements written by hand, and the events expected from them. */
#include "lib/code/unwind.h"
#include "tests/calls/dynamic-file.h"

static void test_nested(void)
{
	begin();
	no_sync(REASON_INIT);
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	timestamp(1000);
	run(MAIN, 2);
	bl(MAIN + 8);
	bl(F);
	b(G); /* a loop */
	range(G, 1, INSTR_BR, SUB_NONE, false);
	ret(G + 4);
	ret(F + 4);
	run(MAIN + 12, 1);
	timestamp(2000);
	end(0, "segment inferred:main( f( g( ) ) )end");
	CHECK_EQ(counts.calls, 2);
	CHECK_EQ(counts.unexplained, 0);
	CHECK_EQ(counts.instructions, 9);
	CHECK_EQ(counts.deepest, 3);
	CHECK_EQ(counts.gaps, 0);
	CHECK_EQ(counts.bound, 1000);
	CHECK_EQ(counts.first, 1000);
	CHECK_EQ(counts.last, 2000);
}

/* Maps a dynamic linker, which has no symbols. */
static struct unwind *map_linker(int fd)
{
	struct region_mapping m = {
		.addr = LINKER, .len = DWARF_TEXT_SIZE, .offset = DWARF_TEXT_OFFSET, .path = "/lib/ld.so"
	};

	CHECK_EQ(unwind_open(fd, &m.unwind), 0);
	CHECK_EQ(region_map_add(regions, &m), 0);
	return m.unwind;
}

/* A program that exec replaces by a dynamic one. */
static void test_exec(void)
{
	_cleanup_close_ int fd = dynamic_file();
	struct unwind *linker;

	begin();
	linker = map_linker(fd);
	run(MAIN, 1);
	bl(MAIN + 4);
	run(F, 1);
	exception(SYSCALL, F + 4);
	run(LINKER_ENTRY, 1);
	br(LINKER_ENTRY + 4);
	run(START, 1);
	end(0, "segment inferred:main( f( syscall( ) )end )end segment inferred:[ld.so]( tail:_start( )end )end");
	CHECK_EQ(counts.signals, 0);
	unwind_free(linker);
}

/* The stack that the thread comes back to is dropped from those saved, for the one that it leaves. */
static void test_too_many_stacks(void)
{
	_cleanup_close_ int fd = dynamic_file();
	struct unwind *linker;

	begin();
	linker = map_linker(fd);
	bl(MAIN);
	for (uint64_t i = 0; i < 6; i++) {
		for (uint64_t k = 0; k < 60000 * MIN(i, (uint64_t)1); k++) {
			bl(G);
			if (k % 1000 == 0)
				timestamp(60000 * i + k);
		}
		bl(i ? G : F);
		run(LINKER_SWITCH, 4);
		ret(LINKER_SWITCH + 16);
		log_text[0] = 0;
	}
	ret(F + 4);
	run(MAIN + 4, 1);
	batch_end();
	CHECK_EQ(calls_end(calls, 0), 0);
	counts = *calls_counts(calls);
	CHECK_EQ(counts.switches, 6);
	CHECK_EQ(counts.roots, 1);
	CHECK_EQ(counts.unexplained, 0);
	log_text[0] = 0;
	end(0, "");
	unwind_free(linker);
}

static void test_vdso(void)
{
	begin();
	bl(MAIN);
	range(F, 1, INSTR_IBR, SUB_LINK, true);
	run(VDSO + 0x200, 16);
	exception(SYSCALL, VDSO + 0x240);
	run(VDSO + 0x240, 1);
	ret(VDSO + 0x244);
	ret(F + 4);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( [vdso]( syscall( ) ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

static void test_recursion(void)
{
	begin();
	run(MAIN, 1);
	bl(MAIN + 4);
	bl(F);
	bl(F);
	bl(F);
	ret(F + 8); /* the innermost frame returns from another place */
	ret(F + 4);
	ret(F + 4);
	ret(F + 4);
	run(MAIN + 8, 1);
	end(0, "segment inferred:main( f( f( f( f( ) ) ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

static void test_tail_call(void)
{
	begin();
	bl(MAIN);
	b(F);
	ret(G);
	bl(MAIN + 4);
	b(F);            /* into f.cold, which is part of f */
	b(MAIN + 0x3a0); /* and back into its middle */
	ret(F + 0x20);
	run(MAIN + 8, 1);
	end(0, "segment inferred:main( f( tail:g( ) ) f( ) )end");
	CHECK_EQ(counts.tails, 1);
	CHECK_EQ(counts.unexplained, 0);
}

static void test_fall_through(void)
{
	begin();
	bl(MAIN);
	run(F, 0x40);
	run(G, 2);
	ret(G + 8);
	bl(MAIN + 4);
	/* In one range. */
	range(F + 0xf8, 4, INSTR_IBR, SUB_RET, true);
	run(MAIN + 8, 1);
	end(0, "segment inferred:main( f( tail:g( ) ) f( tail:g( ) ) )end");
	/* Into the middle of another function: a tail call by a direct branch, else unexplained. */
	begin();
	bl(MAIN);
	b(F);
	ret(G + 0x10);
	bl(MAIN + 4);
	br(F);
	ret(G + 0x10);
	run(MAIN + 8, 1);
	end(0, "segment inferred:main( f( tail:g( ) ) f( )tail odd:g( uncertain ) certain )end");
	CHECK_EQ(counts.unexplained, 1);
}

/* A range that cannot follow the one before is not what ran. */
static void test_torn(void)
{
	begin();
	bl(MAIN);
	element((struct element){ .kind = ELEM_RANGE,
				  .isa = ISA_A64,
				  .torn = true,
				  .range = { .start = F + 8, .end = F + 12, .count = 1, .last_size = 4 } });
	run(F + 12, 1);
	end(0, "segment inferred:main( )gap gap:wrong code segment inferred:f( )end");
	CHECK_EQ(counts.gaps, 1);
}

static void test_return_past_root(void)
{
	begin();
	timestamp(100);
	run(G + 8, 1);
	ret(G + 12);
	run(F + 8, 1);
	bl(F + 12);
	ret(H);
	ret(F + 16);
	run(MAIN + 0x20, 1);
	end(0, "segment inferred:g( ) root:f( h( ) ) root:main( )end");
	CHECK_EQ(counts.roots, 2);
	CHECK_EQ(counts.unexplained, 0);
}

static void test_signal(void)
{
	begin();
	bl(MAIN);
	run(F, 4);
	exception(FAULT, F + 16);
	run(HANDLER, 1);
	bl(HANDLER + 4);
	ret(G);
	ret(HANDLER + 8);
	run(TRAMPOLINE, 2);
	exception(SYSCALL, TRAMPOLINE + 8);
	run(F + 16, 1);
	ret(F + 20);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( signal:handler( g( ) ) signal:[anon]( syscall( ) ) ) )end");
	CHECK_EQ(counts.signals, 1);
	CHECK_EQ(counts.unexplained, 0);
}

static void test_signal_in_system_call(void)
{
	begin();
	run(MAIN, 2);
	exception(SYSCALL, MAIN + 8);
	run(HANDLER, 1);
	/* A second signal during the first handler. */
	exception(FAULT, HANDLER + 4);
	run(HANDLER, 2);
	ret(HANDLER + 8);
	run(TRAMPOLINE, 2);
	exception(SYSCALL, TRAMPOLINE + 8);
	run(HANDLER + 4, 1);
	ret(HANDLER + 8);
	run(TRAMPOLINE, 2);
	exception(SYSCALL, TRAMPOLINE + 8);
	run(MAIN + 4, 1); /* the system call is restarted */
	exception(SYSCALL, MAIN + 8);
	run(MAIN + 8, 1);
	end(0, "segment inferred:main( syscall( ) signal:handler( signal:handler( ) signal:[anon]( syscall( ) ) "
	       ") signal:[anon]( syscall( ) ) syscall( ) )end");
	CHECK_EQ(counts.signals, 2);
	CHECK_EQ(counts.syscalls, 4);
	CHECK_EQ(counts.unexplained, 0);
}

/* Handlers that change where the program resumes: after an instruction, and in the caller of a bad call. */
static void test_signal_that_repairs(void)
{
	begin();
	bl(MAIN);
	run(F, 2);
	exception(FAULT, F + 8);
	ret(HANDLER);
	run(TRAMPOLINE, 2);
	exception(SYSCALL, TRAMPOLINE + 8);
	run(F + 12, 2);
	bl(F + 20);
	exception(FAULT, G);
	ret(HANDLER);
	run(TRAMPOLINE, 2);
	exception(SYSCALL, TRAMPOLINE + 8);
	run(F + 24, 1);
	end(0, "segment inferred:main( f( signal:handler( ) signal:[anon]( syscall( ) ) "
	       "g( signal:handler( ) signal:[anon]( syscall( ) ) )unwound )end )end");
	CHECK_EQ(counts.unexplained, 0);
}

static void test_system_calls(void)
{
	begin();
	bl(MAIN);
	run(F, 2);
	exception(SYSCALL, F + 8);
	run(F + 8, 2);
	exception(SYSCALL, F + 16);
	exception(FAULT, F + 16); /* preempted at once */
	ret(F + 16);
	run(MAIN + 4, 1);
	exception(SYSCALL, MAIN + 8);
	end(0, "segment inferred:main( f( syscall( ) syscall( ) ) syscall( )end )end");
	CHECK_EQ(counts.unexplained, 0);
}

/* The last instruction of a function, at whose end the next one begins, or code that no symbol covers. */
static void test_system_call_at_end(void)
{
	begin();
	bl(MAIN);
	b(F);
	run(H + 0x78, 2);
	exception(SYSCALL, H + 0x80);
	end(0, "segment inferred:main( f( tail:h( syscall( )end )end )end )end");
	CHECK_EQ(counts.tails, 1);
	/* It returns after all. */
	begin();
	bl(MAIN);
	run(F + 0xf8, 2);
	exception(SYSCALL, G);
	run(G, 1);
	ret(G + 4);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( syscall( ) tail:g( ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

static void interrupt_branches(void)
{
	/* What an address filter leaves out is not executed, even where a branch to it was interrupted. */
	bl(F + 4);
	exception(FAULT, G);
	run(F + 8, 1);
	ret(F + 12);
	exception(FAULT, MAIN + 8);
	run(F, 1);
	/* What it does not leave out goes on. */
	bl(F + 4);
	exception(FAULT, H);
	ret(H);
	br(F + 8);
	exception(FAULT, F + 0x10);
	exception(FAULT, F + 0x10);
	run(F + 0x10, 1);
	/* Interrupted again, elsewhere. */
	bl(F + 0x14);
	exception(FAULT, G);
	exception(FAULT, H);
	bl(F + 0x18);
	exception(FAULT, G);
	no_sync(REASON_OVERFLOW);
	run(F + 8, 1);
	ret(F + 12);
	exception(FAULT, MAIN + 8);
}

#define INTERRUPTED_BRANCH                                                                              \
	")gap gap:paused segment inferred:f( )gap gap:paused segment inferred:f( h( ) )gap gap:paused " \
	"segment inferred:f( )gap gap:overflow segment inferred:f( )end"

static void check_address(size_t i, uint64_t want)
{
	uint64_t addresses[4] = { 0 };
	bool in_call;

	CHECK(calls_addresses(calls, addresses, ELEMENTS(addresses), &in_call) == 2 && !in_call);
	CHECK_EQ(addresses[i], want);
}

static void test_filtered(void)
{
	/* Where control is, for the end of a process. */
	begin();
	calls_set_filtered(calls, true);
	bl(F + 4);
	exception(FAULT, G);
	batch_end();
	check_address(0, G);
	check_address(1, F + 4);
	end(0, "segment inferred:f( )end");
	begin();
	calls_set_filtered(calls, true);
	run(F, 1);
	interrupt_branches();
	end(0, "segment inferred:f( " INTERRUPTED_BRANCH);
	CHECK_EQ(counts.signals, 0);
	CHECK_EQ(counts.unexplained, 0);
	/* The first branch that is not traced on shows that there is a filter. */
	begin();
	bl(F);
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	run(F + 4, 1);
	interrupt_branches();
	end(0, "segment inferred:f( )gap gap:paused segment inferred:f( " INTERRUPTED_BRANCH);
	CHECK_EQ(counts.signals, 0);
}

/* A signal where a branch has led, and nothing was executed. */
static void signal_at_target(void)
{
	bl(MAIN);
	exception(FAULT, F);
	run(HANDLER, 1);
}

/* Tracing starts anew behind a gap, which shows no filter. */
static void test_not_filtered(void)
{
	begin();
	run(MAIN, 1);
	no_sync(REASON_OVERFLOW);
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	signal_at_target();
	end(0, "segment inferred:main( )gap gap:overflow segment inferred:main( f( signal:handler( )end )end )end");
	/* It is known that there is none. */
	begin();
	calls_set_filtered(calls, false);
	run(MAIN, 1);
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	signal_at_target();
	end(0, "segment inferred:main( )gap gap:paused segment inferred:main( f( signal:handler( )end )end )end");
	/* No filter leaves out a part of the kernel. */
	begin();
	calls_set_filtered(calls, true);
	run(MAIN, 1);
	taken(SYSCALL, MAIN + 4);
	b(VECTOR);
	bl(ENTRY);
	taken(FAULT, WORK);
	run(NESTED_VECTOR, 1);
	eret(NESTED_VECTOR + 4);
	run(WORK, 3);
	ret(WORK + 12);
	eret(ENTRY + 4);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( syscall( kernel:vectors( tail:entry( work( kernel:vectors( ) ) ) ) ) )end");
}

static void test_longjmp(void)
{
	begin();
	bl(MAIN); /* setjmp, here f */
	ret(F);
	bl(MAIN + 4);
	bl(G);
	/* h is longjmp: to where setjmp was called. */
	br(H);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( ) g( h( )unwound )unwound was-uncertain )end");
	CHECK_EQ(counts.unwound, 2);
	/* By RET to an address that no frame waits for: unwinds to a frame of that function, which is counted. */
	begin();
	bl(MAIN);
	bl(F);
	ret(G);
	ret(F + 4);
	bl(MAIN + 4);
	bl(F);
	ret(G);
	run(F + 0x40, 1);
	end(0, "segment inferred:main( f( g( ) ) f( g( )unwound )end )end");
	CHECK_EQ(counts.unexplained, 0);
	/* Two frames of the function: the choice is uncertain. */
	begin();
	bl(MAIN);
	bl(F);
	bl(F + 4);
	br(G);
	run(F + 0x40, 1);
	end(0, "segment inferred:main( f( f( g( )unwound uncertain )end )end )end");
	CHECK_EQ(counts.uncertain, 1);
	/* To a function that has no frame. */
	begin();
	bl(MAIN);
	ret(F);
	bl(MAIN + 4);
	ret(F);
	bl(MAIN + 8);
	bl(F);
	ret(G);
	run(H + 0x10, 1);
	end(0, "segment inferred:main( f( ) f( ) f( g( ) odd:h( uncertain )end )end )end");
	CHECK_EQ(counts.unexplained, 1);
}

static void test_gaps(void)
{
	struct element none = { .kind = ELEM_NO_IMAGE };

	begin();
	timestamp(1000);
	bl(MAIN);
	run(F, 1);
	no_sync(REASON_OVERFLOW);
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_OVERFLOW });
	timestamp(5000);
	run(G + 8, 1);
	element(none);
	run(H + 4, 1);
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
	run(F + 4, 1);
	no_sync(REASON_BAD_PACKET);
	run(MAIN, 1);
	end(0, "segment inferred:main( f( )gap )gap gap:overflow segment inferred:g( )gap gap:no code "
	       "segment inferred:h( )gap gap:paused segment inferred:f( )gap gap:no sync segment inferred:main( )end");
	CHECK_EQ(counts.gaps, 4);
}

/* A fault before the first instruction of a called function. */
static void test_fault_at_entry(void)
{
	begin();
	bl(MAIN);
	exception(FAULT, F);
	run(F, 1);
	ret(F + 4);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

static void test_too_deep(void)
{
	begin();
	for (int i = 0; i < 70000; i++) {
		bl(F);
		if (i % 1000 == 0) {
			timestamp(1 + (uint64_t)i);
			log_text[0] = 0;
		}
	}
	batch_end();
	calls_end(calls, 0);
	counts = *calls_counts(calls);
	CHECK_EQ(counts.gaps, 1);
	CHECK_EQ(counts.deepest, 1 << 16);
	log_text[0] = 0;
	end(0, "");
}

static void test_all(void)
{
	test_nested();
	test_exec();
	test_too_many_stacks();
	test_vdso();
	test_recursion();
	test_tail_call();
	test_fall_through();
	test_torn();
	test_return_past_root();
	for (int i = 0; i < 2; i++) {
		emit_exception_returns = i;
		test_signal();
		test_signal_in_system_call();
		test_signal_that_repairs();
		test_system_calls();
		test_system_call_at_end();
		test_fault_at_entry();
		test_filtered();
		test_not_filtered();
	}
	test_longjmp();
	test_gaps();
	test_too_deep();
}

int main(void)
{
	return test_both(test_all);
}
