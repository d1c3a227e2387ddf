/* SPDX-License-Identifier: MIT */
/* lib/calls/inlined.c: the functions of tests/code/dwarfgen.h, called in loops, too deep, and around pauses. */
#include <sys/mman.h>

#include "lib/code/inlines.h"
#include "lib/store/store.h"
#include "tests/calls/dynamic-file.h"

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
	_cleanup_close_ int fd = dynamic_file(), store = memfd_create("store", MFD_CLOEXEC);
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

/* A loop of an inlined function, whose head is where calls of it begin, with or without interrupts at the head. */
static void loop_in_inlined(const char *want, int interrupts, bool traced)
{
	static const struct calls_sink sink = { on_event, NULL };
	_cleanup_close_ int fd = dynamic_file();
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
	_cleanup_close_ int fd = dynamic_file();
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

static void test_all(void)
{
	test_too_deep_inlined();
	test_loop_in_inlined();
	test_pause_in_inlined();
}

int main(void)
{
	return test_both(test_all);
}
