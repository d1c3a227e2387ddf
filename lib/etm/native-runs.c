/* SPDX-License-Identifier: MIT */
/* Calls as elements: what ran from one call to the next is one range. */
#include "lib/base/util.h"
#include "lib/etm/native-state.h"

void native_runs_init(struct native_runs *r, const struct element_sink *sink)
{
	*r = (struct native_runs){
		.sink = *sink, .run = { .kind = ELEM_RANGE, .isa = ISA_A64, .several = true, .range.last_size = 4 }
	};
}

static int emit_element(struct native_runs *r, const struct element *e)
{
	return r->sink.element(r->sink.user, e);
}

static void run_begin(struct native_runs *r, const struct basic_block *b, bool torn, uint64_t instructions)
{
	/* run_end() sets the rest. */
	r->run.torn = torn;
	r->run.range.start = b->start;
	r->begun = true;
	r->cycles = 0;
	r->since = instructions;
}

/*
 * Reduces *n, the instructions of the current range, to what the count of an element can hold: emits elements at its
 * start that have a count and no addresses. The function is not inlined, since its copy of what
 * run_begin() has just stored would be a load wider than the store, which costs more than the rest of run_end().
 */
_apart_ static int emit_excess(struct native_runs *r, uint64_t *n)
{
	struct element e = { .kind = ELEM_RANGE, .isa = ISA_A64, .several = true, .taken = true };
	int rc = 0;

	e.range.start = e.range.end = r->run.range.start;
	e.range.count = UINT32_MAX;
	for (; *n > UINT32_MAX && rc >= 0; *n -= UINT32_MAX) {
		e.torn = r->run.torn;
		rc = emit_element(r, &e);
		r->run.torn = false;
	}
	return rc;
}

/* Ends the current range with an edge. ranges: the element's number of ranges (struct element, offset). */
static int run_end(struct native_runs *r, const struct basic_block *blocks, uint32_t edge, uint64_t instructions,
		   uint64_t ranges)
{
	const struct basic_block *b = &blocks[edge_block(edge)];
	uint64_t n = instructions - r->since;
	int rc = 0;

	if (!r->begun)
		return 0;
	r->begun = false;
	if (n > UINT32_MAX)
		rc = emit_excess(r, &n);
	r->run.offset = ranges;
	r->run.instr = b->kind;
	r->run.sub = b->sub;
	r->run.taken = edge_is_taken(edge);
	r->run.conditional = b->conditional;
	r->run.range.end = block_end(b);
	r->run.range.count = (uint32_t)n;
	r->run.has_cycles = r->cycles != 0;
	r->run.cycles = (uint32_t)MIN(r->cycles, UINT32_MAX);
	return rc < 0 ? rc : emit_element(r, &r->run);
}

/* Adds cycles to the current range; without one, emits them. */
static int add_cycles(struct native_runs *r, const struct element *cycles)
{
	if (!r->begun)
		return emit_element(r, cycles);
	r->cycles += cycles->cycles;
	return 0;
}

static int emit_event(struct native_runs *r, const struct native_batch *b, const struct native_call *c, size_t event)
{
	uint64_t ranges = b->ranges[event] + b->ranges_before;
	int rc;

	if (b->events[event].kind == ELEM_CYCLES)
		return add_cycles(r, &b->events[event]);
	rc = run_end(r, b->blocks, c->to, c->instructions + b->instructions, ranges - r->emitted);
	r->emitted = ranges;
	return rc < 0 ? rc : emit_element(r, &b->events[event]);
}

int native_runs_stop(struct native_runs *r, const struct native *e)
{
	const struct native_fold *f = e->fold;
	uint64_t ranges = r->emitted;

	r->emitted = f->ranges;
	return run_end(r, e->blocks.list, f->last, f->instructions, f->ranges - ranges);
}

int native_runs_batch(struct native_runs *r, const struct native_batch *b)
{
	struct element cycles = { .kind = ELEM_CYCLES, .isa = ISA_A64, .has_cycles = true };
	size_t event = 0;
	int rc = 0;

	for (size_t i = 0; i < b->n_calls && rc >= 0; i++) {
		const struct native_call *c = &b->calls[i];

		if (c->edge == NATIVE_EVENT) {
			rc = emit_event(r, b, c, event++);
		} else if (c->edge & NATIVE_CYCLES) {
			cycles.cycles = c->edge & ~NATIVE_CYCLES;
			rc = add_cycles(r, &cycles);
		} else {
			uint64_t instructions = c->instructions + b->instructions;

			rc = run_end(r, b->blocks, c->edge, instructions, 0);
			run_begin(r, &b->blocks[c->to & ~NATIVE_TORN], c->to & NATIVE_TORN, instructions);
		}
	}
	return rc;
}
