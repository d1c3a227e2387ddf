/* SPDX-License-Identifier: MIT */
/* lib/calls: elements written by hand, and the events expected from them. */
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/calls/event-times.h"
#include "lib/code/inlines.h"
#include "lib/code/unwind.h"
#include "lib/store/store.h"
#include "tests/calls/elements.h"
#include "tests/code/dwarfgen.h"

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

/* Makes the file of tests/code/dwarfgen.h, a program that begins at LINKER_ENTRY, with code at LINKER_SWITCH. */
static int make_file(void)
{
	/* mov x9, sp; str x9, [x0]; ldr x9, [x1]; mov sp, x9; ret */
	static const uint32_t code[] = { 0x910003e9, 0xf9000009, 0xf9400029, 0x9100013f, 0xd65f03c0 };
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct buf sections[DWARF_SECTIONS] = { 0 };
	_cleanup_buf_ struct buf b = { 0 };

	dwarfgen_sections(sections, 5);
	dwarfgen_elf(&b, sections);
	((Elf64_Ehdr *)(void *)b.data)->e_entry = DWARF_TEXT + LINKER_ENTRY - LINKER;
	CHECK_EQ(io_write(fd, b.data, b.size), 0);
	CHECK_EQ(pwrite(fd, code, sizeof(code), DWARF_TEXT_OFFSET + LINKER_SWITCH - LINKER), sizeof(code));
	for (int i = 0; i < DWARF_SECTIONS; i++)
		buf_done(&sections[i]);
	return fd;
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
	_cleanup_close_ int fd = make_file();
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
	_cleanup_close_ int fd = make_file();
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

/*
 * Begins a program whose functions have others inlined in them (tests/code/dwarfgen.h), from OUTER on. fd is its file,
 * the caller frees the result.
 */
static struct inlines *begin_inlined(int fd, const struct calls_sink *sink)
{
	const struct symbol list[] = { { DWARF_TEXT_OFFSET, DWARF_TEXT_OFFSET + 0x100, "outer" },
				       { DWARF_TEXT_OFFSET + 0x100, DWARF_TEXT_OFFSET + 0x140, "next" } };
	struct region_mapping m = {
		.addr = OUTER, .len = DWARF_TEXT_SIZE, .offset = DWARF_TEXT_OFFSET, .path = "/bin/inlined"
	};

	begin();
	symbols_free(symbols);
	CHECK_EQ(inlines_load(fd, -1, &m.inlines), 0);
	CHECK_EQ(symbols_from_list(list, ELEMENTS(list), &symbols), 0);
	m.symbols = symbols;
	region_map_free(regions);
	region_map_new(&regions);
	region_map_enable_inlined(regions);
	region_map_add(regions, &m);
	calls_free(calls);
	calls_new(regions, sink, &calls);
	return m.inlines;
}

/* Inlined functions count as well: a store accepts what is emitted. */
static void test_too_deep_inlined(void)
{
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_close_ int fd = make_file(), store = memfd_create("store", MFD_CLOEXEC);
	struct store_thread_sink to = { 0 };
	struct calls_sink sink;
	struct inlines *inlines;

	CHECK_EQ(store_create(store, &(struct store_meta){ .program = "inlined" }, &w), 0);
	CHECK_EQ(store_thread_add(w, 1, "thread", &to.thread), 0);
	to.writer = w;
	sink = store_sink(&to);
	inlines = begin_inlined(fd, &sink);
	for (uint64_t i = 0; i < 70000; i++) {
		run(OUTER, 10);
		bl(OUTER + 0x28); /* in an inlined function of an inlined function */
		if (i % 1000 == 0)
			timestamp(1 + i);
	}
	end(0, "");
	CHECK_EQ(counts.gaps, 3);
	CHECK_EQ(store_thread_end(w, to.thread, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	inlines_free(inlines);
}

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

/* A loop of an inlined function, whose head is where calls of it begin, with or without interrupts at the head. */
static void loop_in_inlined(const char *want, int interrupts, bool traced)
{
	static const struct calls_sink sink = { on_event, NULL };
	_cleanup_close_ int fd = make_file();
	struct inlines *inlines = begin_inlined(fd, &sink);

	run(OUTER + 0x28, 1);
	for (int i = 0; i < 3; i++) {
		range(OUTER + 0x2c, 1, INSTR_BR, SUB_NONE, true);
		for (int k = 0; k < interrupts; k++)
			exception(FAULT, OUTER + 0x2c);
		if (!traced)
			continue;
		taken(FAULT, OUTER + 0x2c);
		run(VECTOR, 1);
		taken(FAULT, VECTOR + 4);
		eret(NESTED_VECTOR);
		eret(VECTOR + 4);
	}
	range(OUTER + 0x2c, 1, INSTR_BR, SUB_NONE, false);
	run(OUTER + 0x30, 1);
	end(0, want);
	inlines_free(inlines);
}

#define IN_KERNEL "kernel:[unknown]( kernel:[unknown]( ) ) "

static void test_loop_in_inlined(void)
{
	static const char want[] =
	    "segment inferred:outer( inferred:middle( inferred:leaf( ) inlined:leaf( ) )end )end";

	loop_in_inlined(want, 0, false);
	loop_in_inlined(want, 1, false);
	loop_in_inlined(want, 2, false);
	loop_in_inlined(
	    "segment inferred:outer( inferred:middle( inferred:leaf( ) inlined:leaf( " IN_KERNEL IN_KERNEL IN_KERNEL
	    ") )end )end",
	    0, true);
}

/* A pause behind a return of an inlined function that turns out not to have returned. */
static const struct calls_pause preempted = { 1150, 1900, true };

static void test_pause_in_inlined(void)
{
	static const struct calls_sink sink = { on_event, NULL };
	_cleanup_close_ int fd = make_file();
	struct inlines *inlines = begin_inlined(fd, &sink);

	set_pauses(&preempted, 1);
	timestamp(1000);
	run(OUTER + 0x30, 12); /* in middle, which also has 0x80 */
	run(OUTER + 0x60, 1);
	exception(FAULT, OUTER + 0x64);
	run(OUTER + 0x64, 7);
	run(OUTER + 0x80, 2);
	bl(OUTER + 0x88);
	ret(OUTER + 0x100);
	run(OUTER + 0x8c, 1);
	timestamp(1950);
	end(0, "segment inferred:outer( inferred:middle( preempted( ) next( ) )end )end");
	inlines_free(inlines);
}

/* So much follows a pause without a timestamp that its times are guessed. */
static void test_pause_before_guess(void)
{
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
	test_nested();
	test_exec();
	test_too_many_stacks();
	test_vdso();
	test_kernel();
	test_kernel_trampoline();
	test_kernel_signal();
	test_kernel_switch();
	test_kernel_first();
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
	test_too_deep_in_kernel();
	test_too_deep_inlined();
	test_times();
	test_cycles();
	test_cycles_of_call();
	test_ties();
	test_guess_ahead();
	test_loop_in_inlined();
	test_pause_in_inlined();
	test_pause_before_guess();
	test_emulated_calls();
}

int main(void)
{
	test_all();
	in_batches = true;
	test_all();
	return unit_end();
}
