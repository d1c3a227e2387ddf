/* SPDX-License-Identifier: MIT */
/* The native engine as struct engine_ops: each edge of a batch becomes an element. */
#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/etm/native-runs.h"

/* Behind the handle struct engine. */
struct native_engine {
	struct native *native; /* one of these two */
	struct native_workers *workers;
	struct element_sink sink;
	struct native_reader reader;
	struct native_runs runs;
	struct native_sink batches;
};

void native_read_batch(struct native_reader *r, const struct native_batch *batch)
{
	r->batch = batch;
	r->at = r->event = 0;
}

static void read_event(struct native_reader *r, struct element *ret)
{
	uint64_t successor = r->batch->successors[r->event];

	*ret = r->batch->events[r->event++];
	if (element_is_aside(ret))
		return;
	if (ret->kind == ELEM_RANGE)
		ret->torn = r->next != NATIVE_UNKNOWN && r->next != ret->range.start;
	r->next = ret->kind == ELEM_RANGE ? successor : NATIVE_UNKNOWN;
}

/*
 * Sets the fields of a range that depend on its block; all others are constant. lib/etm/continuity.c finds torn ranges
 * without the blocks' code.
 */
static inline void read_block(struct native_reader *r, const struct basic_block *b, bool taken, struct element *ret)
{
	uint64_t successors[2] = { block_end(b), b->target };

	ret->instr = b->kind;
	ret->sub = b->sub;
	ret->taken = taken;
	ret->conditional = b->conditional;
	/* Without branches, which would often be mispredicted. */
	ret->torn = ((r->next != b->start) & (r->next != NATIVE_UNKNOWN)) | (b->always & !taken);
	ret->range.start = b->start;
	ret->range.end = successors[0];
	ret->range.count = b->count;
	r->next = successors[taken];
}

static const struct element any_range = { .kind = ELEM_RANGE, .isa = ISA_A64, .range.last_size = 4 };

void native_range(const struct basic_block *b, bool taken, struct element *ret)
{
	struct native_reader r = { .next = NATIVE_UNKNOWN };

	*ret = any_range;
	read_block(&r, b, taken, ret);
}

void native_sum_event(struct native_sums *s, const struct native_batch *b, size_t event)
{
	const struct element *e = &b->events[event];
	bool is_range = e->kind == ELEM_RANGE;

	s->others += !is_range || !e->range.count;
	if (is_range) {
		s->ranges++;
		s->instructions += e->range.count;
		s->torn += s->next != NATIVE_UNKNOWN && s->next != e->range.start;
	}
	if (!element_is_aside(e))
		s->next = is_range ? b->successors[event] : NATIVE_UNKNOWN;
}

void native_sum(struct native_sums *s, const struct native_batch *b)
{
	struct native_sums sum = *s;
	size_t event = 0;

	for (size_t i = 0; i < b->n; i++) {
		uint32_t edge = b->edges[i];
		const struct basic_block *block = &b->blocks[edge_block(edge)];
		bool taken = edge_is_taken(edge);

		if (edge == NATIVE_EVENT) {
			native_sum_event(&sum, b, event++);
		} else if (edge & NATIVE_CYCLES) {
			sum.others++;
		} else {
			sum.torn +=
			    ((sum.next != block->start) & (sum.next != NATIVE_UNKNOWN)) | (block->always & !taken);
			sum.next = taken ? block->target : block_end(block);
			sum.instructions += block->count;
			sum.ranges++;
			sum.others += !block->count;
		}
	}
	*s = sum;
}

void native_sum_executed(struct native_sums *s, const struct native_batch *b)
{
	uint64_t blocks = b->ranges_before + b->executed_blocks;

	for (size_t i = 0; i < b->n_calls; i++) {
		if (!(b->calls[i].edge & NATIVE_CYCLES))
			s->torn++;
		else if (b->calls[i].edge != NATIVE_EVENT)
			s->others++;
	}
	for (size_t i = 0; i < b->n_events; i++) {
		bool is_range = b->events[i].kind == ELEM_RANGE;

		s->others += !is_range || !b->events[i].range.count;
		s->ranges += is_range;
		s->torn += is_range && b->events[i].torn;
	}
	s->ranges += blocks - s->blocks;
	s->blocks = blocks;
	s->instructions = b->instructions + b->executed;
}

bool native_read(struct native_reader *r, struct element *ret)
{
	const struct native_batch *b = r->batch;
	uint32_t edge;

	if (r->at == b->n)
		return false;
	edge = b->edges[r->at];
	if (edge == NATIVE_EVENT) {
		read_event(r, ret);
	} else if (edge & NATIVE_CYCLES) {
		*ret = (struct element){ .kind = ELEM_CYCLES, .isa = ISA_A64, .has_cycles = true };
		ret->cycles = edge & ~NATIVE_CYCLES;
		ret->offset = b->offsets ? b->offsets[r->at] : 0;
	} else {
		*ret = any_range;
		read_block(r, &b->blocks[edge_block(edge)], edge_is_taken(edge), ret);
		ret->offset = b->offsets ? b->offsets[r->at] : 0;
	}
	r->at++;
	return true;
}

static int on_batch(void *user, const struct native_batch *b)
{
	struct native_engine *e = user;
	struct native_reader *r = &e->reader;
	struct element range = any_range, other;
	int rc = 0;

	native_read_batch(r, b);
	while (r->at < b->n && rc >= 0) {
		uint32_t edge = b->edges[r->at];

		if (edge & NATIVE_CYCLES) {
			native_read(r, &other);
			rc = e->sink.element(e->sink.user, &other);
			continue;
		}
		range.offset = b->offsets[r->at++];
		read_block(r, &b->blocks[edge_block(edge)], edge_is_taken(edge), &range);
		rc = e->sink.element(e->sink.user, &range);
	}
	return rc;
}

static int on_calls(void *user, const struct native_batch *b)
{
	return native_runs_batch(&((struct native_engine *)user)->runs, b);
}

static struct native_engine *self(const struct engine *e)
{
	return (struct native_engine *)e;
}

static struct engine *engine_close(struct engine *handle)
{
	struct native_engine *e = self(handle);

	if (!e)
		return NULL;
	native_close(e->native);
	native_workers_close(e->workers);
	free(e);
	return NULL;
}

static int engine_open(const struct engine_config *config, const struct engine_memory *memory,
		       const struct element_sink *sink, struct engine **ret)
{
	struct native_sink batches = { .batch = sink->batch ? sink->batch : on_batch, .offsets = !sink->batch };
	struct native_engine *e;
	int rc;

	/* Only OpenCSD describes packets. */
	if (sink->packet)
		return -EOPNOTSUPP;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->sink = *sink;
	native_reader_init(&e->reader);
	native_runs_init(&e->runs, sink);
	if (sink->regions)
		batches = (struct native_sink){ .batch = sink->batch ? sink->batch : on_calls,
						.outlet = NATIVE_CALLS,
						.region = sink->regions->number,
						.region_user = sink->regions->user };
	else if (sink->batch && sink->sums)
		batches.outlet = NATIVE_SUMS;
	batches.user = sink->batch ? sink->user : e;
	e->batches = batches;
	if (sink->pool)
		rc = native_workers_open(
		    config, memory, &batches,
		    &(struct native_workers_options){ sink->pool, sink->workers, sink->chunk_size }, &e->workers);
	else
		rc = native_open(config, memory, &batches, &e->native);
	if (rc < 0) {
		engine_close((struct engine *)e);
		return rc;
	}
	*ret = (struct engine *)e;
	return 0;
}

/* Ends the current range where the engine stopped, as another engine continues. */
static int finish_if_stopped(struct native_engine *e, int rc)
{
	int emitted = 0;

	if (rc == -EOPNOTSUPP && e->sink.regions)
		emitted = native_emit_stop(e->workers ? native_workers_native(e->workers) : e->native, &e->batches);
	return emitted < 0 ? emitted : rc;
}

static void *engine_reserve(struct engine *handle, size_t size)
{
	struct native_engine *e = self(handle);

	return e->workers ? native_workers_reserve(e->workers, size) : NULL;
}

static int engine_push(struct engine *handle, const void *data, size_t size)
{
	struct native_engine *e = self(handle);

	return finish_if_stopped(e, e->workers ? native_workers_push(e->workers, data, size)
					       : native_push(e->native, data, size));
}

static int engine_reset(struct engine *handle)
{
	struct native_engine *e = self(handle);

	return finish_if_stopped(e, e->workers ? native_workers_reset(e->workers) : native_reset(e->native));
}

static int engine_settle(struct engine *handle)
{
	struct native_engine *e = self(handle);

	return e->workers ? -EOPNOTSUPP : native_settle(e->native);
}

static int engine_finish(struct engine *handle)
{
	struct native_engine *e = self(handle);

	return finish_if_stopped(e, e->workers ? native_workers_finish(e->workers) : native_finish(e->native));
}

static void engine_stats(const struct engine *handle, struct engine_stats *ret)
{
	const struct native_engine *e = self(handle);

	if (e->workers)
		native_workers_stats(e->workers, ret);
	else
		native_stats(e->native, ret);
}

const struct engine_ops native_engine_ops = {
	.name = "native",
	.open = engine_open,
	.reserve = engine_reserve,
	.push = engine_push,
	.settle = engine_settle,
	.reset = engine_reset,
	.finish = engine_finish,
	.stats = engine_stats,
	.close = engine_close,
};
