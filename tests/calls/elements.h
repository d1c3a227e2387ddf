/* SPDX-License-Identifier: MIT */
/* Elements written by hand, and the events that lib/calls makes of them, as text. */
#ifndef CSIGHT_TESTS_ELEMENTS_H
#define CSIGHT_TESTS_ELEMENTS_H

#include <string.h>

#include "lib/base/util.h"
#include "lib/calls/calls.h"
#include "lib/etm/native-runs.h"
#include "tests/code/symbol-list.h"
#include "tests/unit.h"

/* A program of functions of 0x100 bytes each, and a library mapped elsewhere. */
enum {
	MAIN = 0x10000,
	F = 0x10100,
	G = 0x10200,
	H = 0x10300,
	HANDLER = 0x10400,
	STUB = 0x10500,
	NAMELESS = 0x10600,
	START = 0x10700,
	PLT = 0x10720,
	LINK = 0x10800,
	LINK_SIZE = 0x10,
	LINKS = 40,
	OUTER = 0x20000,
	LINKER = 0x30000,
	LINKER_ENTRY = 0x30040,
	LINKER_SWITCH = 0x30080,
	VDSO = 0x40000,
	TRAMPOLINE = 0x50000,
};

/* The kernel: its vectors, and functions of 0x100 bytes each. */
#define KERNEL 0xffff800008000000ull
#define VECTOR (KERNEL + 0x400)
#define NESTED_VECTOR (KERNEL + 0x280)
#define ENTRY (KERNEL + 0x1000)
#define WORK (KERNEL + 0x1100)
#define SCHEDULE (KERNEL + 0x1200)
#define SWITCH_OUT (KERNEL + 0x1300)
#define SWITCH_IN (KERNEL + 0x1400)
#define TRAMP_VECTOR (KERNEL + 0x1c00)
#define TRAMP_EXIT (KERNEL + 0x1f00)

static char log_text[1 << 16];
static uint64_t log_last, log_instructions;
static int log_depth;
static bool log_bad; /* time or instructions decreased, or a leave without an enter */

static void check_order(const struct call_event *e)
{
	log_bad = log_bad || e->time < log_last || e->instructions < log_instructions;
	log_last = e->time;
	log_instructions = e->instructions;
}

static int on_event(void *user, const struct call_event *e)
{
	size_t at = strlen(log_text);
	const char *name = e->function ? e->function->name : "syscall";
	char *to = log_text + at;
	size_t size = sizeof(log_text) - at;

	check_order(e);
	switch (e->type) {
	case CALL_EVENT_SEGMENT:
		log_bad = log_bad || log_depth;
		snprintf(to, size, "segment ");
		break;
	case CALL_EVENT_ENTER:
		log_depth++;
		if (e->kind == CALL_PLAIN || e->kind == CALL_SYSCALL)
			snprintf(to, size, "%s( ", name);
		else
			snprintf(to, size, "%s:%s( ", calls_kind_str(e->kind), name);
		break;
	case CALL_EVENT_ROOT:
		log_bad = log_bad || log_depth;
		log_depth++;
		snprintf(to, size, "root:%s( ", name);
		break;
	case CALL_EVENT_LEAVE:
		log_bad = log_bad || !log_depth;
		log_depth--;
		snprintf(to, size, ")%s ", e->kind == LEAVE_RETURN ? "" : calls_leave_str(e->kind));
		break;
	case CALL_EVENT_GAP:
		log_bad = log_bad || log_depth;
		snprintf(to, size, "gap:%s ", calls_gap_str(e->kind));
		break;
	case CALL_EVENT_MARK:
		snprintf(to, size, "%s ",
			 e->kind == MARK_CERTAIN     ? "certain"
			 : e->kind == MARK_UNCERTAIN ? "uncertain"
						     : "was-uncertain");
		break;
	case CALL_EVENT_MOVE:
		log_bad = true;
		break;
	}
	return 0;
}

static struct region_map *regions;
static struct symbols *symbols, *kernel_symbols;
static struct calls *calls;
static struct calls_counts counts;

/* Elements reach lib/calls as the engine's batches, where each range is a run of its own. */
static bool in_batches;

static struct {
	struct native_runs runs;
	struct basic_block blocks[3];
	uint32_t last; /* edge */
	uint64_t instructions, ranges;
} batch;

static int on_batch_element(void *user, const struct element *e)
{
	return calls_element(calls, e);
}

static void batch_begin(void)
{
	memset(&batch, 0, sizeof(batch));
	native_runs_init(&batch.runs, &(struct element_sink){ .element = on_batch_element });
}

static int batch_add(uint32_t edge, uint32_t to, const struct element *event)
{
	const struct native_call call = { edge, to, batch.instructions };

	return calls_batch(calls, &batch.runs,
			   &(struct native_batch){ .calls = &call,
						   .n_calls = 1,
						   .blocks = batch.blocks,
						   .n_blocks = ELEMENTS(batch.blocks),
						   .events = event,
						   .n_events = event != NULL,
						   .ranges = &batch.ranges,
						   .executed_blocks = batch.ranges });
}

static int batch_range(const struct element *e)
{
	uint32_t to = edge_block(batch.last) == 1 ? 2 : 1;
	int rc;

	batch.blocks[to] =
	    (struct basic_block){ .start = e->range.start, .count = e->range.count, .kind = e->instr, .sub = e->sub };
	rc = batch_add(batch.last, to | (e->torn ? NATIVE_TORN : 0), NULL);
	batch.instructions += e->range.count;
	batch.ranges++;
	batch.last = make_edge(to, e->taken);
	if (rc == 0 && e->has_cycles)
		rc = batch_add(NATIVE_CYCLES | e->cycles, batch.last, NULL);
	return rc;
}

static int batch_event(const struct element *e)
{
	int rc = batch_add(NATIVE_EVENT, batch.last, e);

	if (!element_is_aside(e))
		batch.last = 0;
	return rc;
}

/* Ends the last run, once. */
static void batch_end(void)
{
	if (in_batches)
		log_bad = batch_add(NATIVE_EVENT, batch.last, NULL) < 0 || log_bad;
}

static void begin(void)
{
	enum { NAMED = 9 };
	struct symbol list[NAMED + LINKS] = {
		{ 0x000, 0x100, "main" },   { 0x100, 0x200, "f" },       { 0x200, 0x300, "g" },
		{ 0x300, 0x380, "h" },      { 0x400, 0x500, "handler" }, { 0x500, 0x510, "stub" },
		{ 0x3a0, 0x3b0, "f.cold" }, { 0x700, 0x710, "_start" },  { 0x720, 0x740, "plt" },
	};
	static char links[LINKS][8];
	struct symbol kernel_list[] = {
		{ 0, 0x800, "vectors" },
		{ 0x1000, 0x1100, "entry" },
		{ 0x1100, 0x1200, "work" },
		{ 0x1200, 0x1300, "__schedule" },
		{ 0x1300, 0x1400, "switch_out" },
		{ 0x1400, 0x1500, "switch_in" },
		{ 0x1800, 0x1f00, "tramp_vectors" },
		{ 0x1f00, 0x2000, "tramp_exit" },
	};
	struct region_mapping kernel = { .addr = KERNEL, .len = 0x2000, .path = "[kernel.kallsyms]" };
	struct region_mapping program = { .addr = MAIN, .len = 0x1000, .path = "/bin/prog" };
	struct region_mapping vdso = { .addr = VDSO, .len = 0x1000, .path = "[vdso]" };
	struct region_mapping anon = { .addr = TRAMPOLINE, .len = 0x1000, .path = "" };
	struct calls_sink sink = { on_event, NULL };

	for (unsigned i = 0; i < LINKS; i++) {
		uint64_t at = LINK - MAIN + i * LINK_SIZE;

		snprintf(links[i], sizeof(links[i]), "link%u", i);
		list[NAMED + i] = (struct symbol){ at, at + LINK_SIZE, links[i] };
	}
	symbols_from_list(list, ELEMENTS(list), &symbols);
	symbols_from_list(kernel_list, ELEMENTS(kernel_list), &kernel_symbols);
	program.symbols = symbols;
	kernel.symbols = kernel_symbols;
	region_map_new(&regions);
	region_map_add(regions, &program);
	region_map_add(regions, &vdso);
	region_map_add(regions, &anon);
	region_map_add(regions, &kernel);
	calls_new(regions, &sink, &calls);
	batch_begin();
	log_text[0] = 0;
	log_last = log_instructions = 0;
	log_depth = 0;
	log_bad = false;
}

static void element(struct element e)
{
	bool is_block = e.kind == ELEM_RANGE && e.range.end == e.range.start + 4 * (uint64_t)e.range.count;
	int rc = !in_batches ? calls_element(calls, &e) : is_block ? batch_range(&e) : batch_event(&e);

	log_bad = log_bad || rc < 0;
}

/* A range of count instructions from start; instr and sub describe the last one. */
static void range(uint64_t start, unsigned count, enum element_instr instr, enum element_sub sub, bool taken)
{
	struct element e = {
		.kind = ELEM_RANGE, .isa = ISA_A64, .instr = (uint8_t)instr, .sub = (uint8_t)sub, .taken = taken
	};

	e.range.start = start;
	e.range.end = start + 4 * count;
	e.range.count = count;
	e.range.last_size = 4;
	element(e);
}

static void run(uint64_t at, unsigned count)
{
	range(at, count, INSTR_OTHER, SUB_NONE, false);
}

static void bl(uint64_t at)
{
	range(at, 1, INSTR_BR, SUB_LINK, true);
}

static inline void ret(uint64_t at)
{
	range(at, 1, INSTR_IBR, SUB_RET, true);
}

static inline void b(uint64_t at)
{
	range(at, 1, INSTR_BR, SUB_NONE, true);
}

static inline void br(uint64_t at)
{
	range(at, 1, INSTR_IBR, SUB_NONE, true);
}

static void timestamp(uint64_t time)
{
	element((struct element){ .kind = ELEM_TIMESTAMP, .value = time });
}

/* Emit an element for each return from an exception, as some trace units do. */
static bool emit_exception_returns;

enum cause { SYSCALL, FAULT };

static inline void exception(enum cause cause, uint64_t from)
{
	struct element e = { .kind = ELEM_EXCEPTION };

	e.exception.syscall = cause == SYSCALL;
	e.exception.has_ret = true;
	e.exception.ret = from;
	element(e);
	if (emit_exception_returns)
		element((struct element){ .kind = ELEM_EXCEPTION_RETURN });
	/* The kernel is not traced. */
	element((struct element){ .kind = ELEM_TRACE_ON, .reason = REASON_BEGIN });
}

static inline void no_sync(enum element_reason reason)
{
	element((struct element){ .kind = ELEM_NO_SYNC, .reason = (uint8_t)reason });
}

static void end(uint64_t time, const char *want)
{
	size_t length;

	batch_end();
	calls_end(calls, time);
	counts = *calls_counts(calls);
	length = strlen(log_text);
	if (length)
		log_text[length - 1] = 0;
	CHECK_STR(log_text, want);
	CHECK(!log_bad && log_depth == 0);
	calls_free(calls);
	region_map_free(regions);
	symbols_free(symbols);
	symbols_free(kernel_symbols);
}

static inline void eret(uint64_t at)
{
	range(at, 1, INSTR_IBR, SUB_ERET, true);
}

/* An exception into the kernel, which is traced. */
static inline void taken(enum cause cause, uint64_t from)
{
	struct element e = { .kind = ELEM_EXCEPTION };

	e.exception.syscall = cause == SYSCALL;
	e.exception.has_ret = true;
	e.exception.ret = from;
	element(e);
}

/* From the vector to the kernel's own function. */
static inline void enter_kernel(void)
{
	b(VECTOR);
	run(ENTRY, 1);
	bl(ENTRY + 4);
	run(WORK, 1);
}

static inline void leave_kernel(void)
{
	ret(WORK + 12);
	eret(ENTRY + 8);
}

static uint64_t times[64];
static size_t n_times;

static inline int on_time(void *user, const struct call_event *e)
{
	check_order(e);
	if (n_times < ELEMENTS(times))
		times[n_times++] = e->time;
	return 0;
}

static inline void begin_times(void)
{
	static const struct calls_sink sink = { on_time, NULL };

	begin();
	calls_free(calls);
	calls_new(regions, &sink, &calls);
	n_times = 0;
}

/* Pauses of the thread, as its switch records have them. */
static const struct calls_pause *pauses;
static size_t n_pauses;

static inline bool find_pause(void *user, uint64_t from, uint64_t to, struct calls_pause *ret)
{
	for (size_t i = 0; i < n_pauses; i++)
		if (pauses[i].to > from && pauses[i].from < to) {
			*ret = pauses[i];
			return true;
		}
	return false;
}

static inline void set_pauses(const struct calls_pause *list, size_t n)
{
	pauses = list;
	n_pauses = n;
	calls_set_pauses(calls, find_pause, NULL);
}

/* Tests with elements one by one, then in batches. */
static inline int test_both(void (*test_all)(void))
{
	test_all();
	in_batches = true;
	test_all();
	return unit_end();
}

#endif
