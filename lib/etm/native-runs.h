/* SPDX-License-Identifier: MIT */
/*
 * Reads batches of NATIVE_CALLS: what ran from one call to the next is a run, which is one element, a range. Inline,
 * since some readers do little with a run.
 */
#ifndef CSIGHT_ETM_NATIVE_RUNS_H
#define CSIGHT_ETM_NATIVE_RUNS_H

#include "lib/base/util.h"
#include "lib/etm/native.h"

struct native_runs {
	struct element run;       /* the current one; its offset is 0 where a call ends it */
	bool begun;               /* there is one */
	bool ran;                 /* a run has ended; the owner may clear this */
	uint64_t since;           /* instructions before it */
	uint64_t cycles;          /* within it, so far */
	uint64_t emitted;         /* ranges, in all */
	struct native_sums sums;  /* of runs and elements, but for next and blocks */
	struct element_sink sink; /* of elements that are not runs */
};

void native_runs_init(struct native_runs *r, const struct element_sink *sink);

/* Reads a batch, and passes runs to the sink as well. Returns what the sink returned. */
int native_runs_batch(struct native_runs *r, const struct native_batch *b);

/* Counts an element in the sums, and passes it to the sink. */
int native_runs_element(struct native_runs *r, const struct element *e);

/*
 * Reduces *n, the instructions of the current run, to what the count of an element can hold: emits elements at its
 * start that have a count and no addresses. Not inline, since its copy of what native_runs_begin() has just stored
 * would be a load wider than the store, which costs more than the rest of native_runs_end().
 */
int native_runs_emit_excess(struct native_runs *r, uint64_t *n);

/* Handles an event of a batch, or cycles. at: its place among the batch's calls; event: its number. */
int native_runs_event(struct native_runs *r, const struct native_batch *b, size_t at, size_t event);

static inline void native_runs_begin(struct native_runs *r, const struct basic_block *b, bool torn,
				     uint64_t instructions)
{
	/* native_runs_end() sets the rest. */
	r->run.torn = torn;
	r->run.range.start = b->start;
	r->begun = true;
	r->cycles = 0;
	r->since = instructions;
}

/* Ends the current run with an edge, and passes it on. */
static inline __attribute__((always_inline)) int
native_runs_end(struct native_runs *r, const struct basic_block *blocks, uint32_t edge, uint64_t instructions,
		int (*run)(void *user, const struct element *run), void *user)
{
	const struct basic_block *b = &blocks[edge_block(edge)];
	uint64_t n = instructions - r->since;
	int rc = n > UINT32_MAX ? native_runs_emit_excess(r, &n) : 0;

	r->begun = false;
	r->ran = true;
	r->run.instr = b->kind;
	r->run.sub = b->sub;
	r->run.taken = edge_is_taken(edge);
	r->run.conditional = b->conditional;
	r->run.range.end = block_end(b);
	r->run.range.count = (uint32_t)n;
	r->run.has_cycles = r->cycles != 0;
	r->run.cycles = (uint32_t)MIN(r->cycles, UINT32_MAX);
	r->sums.instructions += n;
	r->sums.torn += r->run.torn;
	r->sums.others += !n;
	return rc < 0 ? rc : run(user, &r->run);
}

/* Reads a batch: calls run(), which is inlined, with each run that a call ends, and the sink with all else. */
static inline __attribute__((always_inline)) int native_runs_read(struct native_runs *r, const struct native_batch *b,
								  int (*run)(void *user, const struct element *run),
								  void *user)
{
	size_t event = 0;
	int rc = 0;

	for (size_t i = 0; i < b->n_calls && rc >= 0; i++) {
		const struct native_call *c = &b->calls[i];
		uint64_t instructions = c->instructions + b->instructions;

		if (c->edge & NATIVE_CYCLES) {
			rc = native_runs_event(r, b, i, event);
			event += c->edge == NATIVE_EVENT;
			continue;
		}
		if (r->begun)
			rc = native_runs_end(r, b->blocks, c->edge, instructions, run, user);
		native_runs_begin(r, &b->blocks[c->to & ~NATIVE_TORN], c->to & NATIVE_TORN, instructions);
	}
	return rc;
}

#endif
