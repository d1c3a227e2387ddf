/* SPDX-License-Identifier: MIT */
/* Calls as elements: what ran from one call to the next is one range. */
#include "lib/etm/native-runs.h"

void native_runs_init(struct native_runs *r, const struct element_sink *sink)
{
	*r = (struct native_runs){
		.sink = *sink, .run = { .kind = ELEM_RANGE, .isa = ISA_A64, .several = true, .range.last_size = 4 }
	};
}

static int pass_on(void *user, const struct element *run)
{
	struct native_runs *r = user;

	return r->sink.element(r->sink.user, run);
}

int native_runs_element(struct native_runs *r, const struct element *e)
{
	bool is_range = e->kind == ELEM_RANGE;

	r->sums.others += !is_range || !e->range.count;
	if (is_range) {
		r->sums.ranges += e->several ? e->offset : 1;
		r->sums.instructions += e->range.count;
		r->sums.torn += e->torn;
	}
	return pass_on(r, e);
}

int native_runs_emit_excess(struct native_runs *r, uint64_t *n)
{
	struct element e = { .kind = ELEM_RANGE, .isa = ISA_A64, .several = true, .taken = true };
	int rc = 0;

	e.range.start = e.range.end = r->run.range.start;
	e.range.count = UINT32_MAX;
	for (; *n > UINT32_MAX && rc >= 0; *n -= UINT32_MAX) {
		e.torn = r->run.torn;
		rc = native_runs_element(r, &e);
		r->run.torn = false;
	}
	return rc;
}

/* Adds cycles to the current run; without one, emits them. */
static int add_cycles(struct native_runs *r, const struct element *cycles)
{
	if (!r->begun)
		return native_runs_element(r, cycles);
	r->cycles += cycles->cycles;
	return 0;
}

/* Ends the current run, if there is one, with the edge last->to; ranges: how many have run in all. */
static int end_with(struct native_runs *r, const struct native_batch *b, const struct native_call *last,
		    uint64_t ranges)
{
	uint64_t n = ranges - r->emitted;
	int rc;

	r->emitted = ranges;
	if (!r->begun)
		return 0;
	r->run.offset = n;
	r->sums.ranges += n;
	rc = native_runs_end(r, b->blocks, last->to, last->instructions + b->instructions, pass_on, r);
	r->run.offset = 0;
	return rc;
}

int native_runs_event(struct native_runs *r, const struct native_batch *b, size_t at, size_t event)
{
	struct element cycles = { .kind = ELEM_CYCLES, .isa = ISA_A64, .has_cycles = true };
	const struct native_call *c = &b->calls[at];
	int rc;

	if (c->edge != NATIVE_EVENT) {
		cycles.cycles = c->edge & ~NATIVE_CYCLES;
		return add_cycles(r, &cycles);
	}
	/* The last event of an engine that has stopped is none. */
	if (event == b->n_events)
		return end_with(r, b, c, b->executed_blocks);
	if (b->events[event].kind == ELEM_CYCLES)
		return add_cycles(r, &b->events[event]);
	rc = end_with(r, b, c, b->ranges[event] + b->ranges_before);
	return rc < 0 ? rc : native_runs_element(r, &b->events[event]);
}

int native_runs_batch(struct native_runs *r, const struct native_batch *b)
{
	return native_runs_read(r, b, pass_on, r);
}
