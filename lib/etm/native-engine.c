/* The native engine as an engine: every edge of a batch is an element. */
#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/etm/native.h"

struct native_engine {
	struct native *native; /* or: */
	struct native_workers *workers;
	struct element_sink sink;
	struct native_reader reader;
	struct native_runs runs;
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
 * Of a range whose other fields are zero, or of the block before it. The code of a block is known; lib/etm/continuity.c
 * is the same without it.
 */
static inline void read_block(struct native_reader *r, const struct basic_block *b, bool taken, struct element *ret)
{
	uint64_t successors[2] = { block_end(b), b->target };

	ret->instr = b->kind;
	ret->sub = b->sub;
	ret->taken = taken;
	ret->conditional = b->conditional;
	/* Without branches, which would often be predicted wrongly. */
	ret->torn = ((r->next != b->start) & (r->next != NATIVE_UNKNOWN)) | (b->always & !taken);
	ret->range.start = b->start;
	ret->range.end = successors[0];
	ret->range.count = b->count;
	r->next = successors[taken];
}

static const struct element any_range = { .kind = ELEM_RANGE, .isa = ISA_A64, .range.last_size = 4 };

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
		read_block(r, &b->blocks[edge_block(edge)], edge_taken(edge), ret);
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
		read_block(r, &b->blocks[edge_block(edge)], edge_taken(edge), &range);
		rc = e->sink.element(e->sink.user, &range);
	}
	return rc;
}

static int on_calls(void *user, const struct native_batch *b)
{
	return native_runs_batch(&((struct native_engine *)user)->runs, b);
}

static struct engine *engine_close(struct engine *engine)
{
	struct native_engine *e = (struct native_engine *)engine;

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
	struct native_sink batches = { .batch = on_batch, .offsets = true };
	struct native_engine *e;
	int rc;

	/* What a packet is called is told by OpenCSD alone. */
	if (sink->packet)
		return -EOPNOTSUPP;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->sink = *sink;
	native_reader_init(&e->reader);
	native_runs_init(&e->runs, sink);
	if (sink->regions)
		batches = (struct native_sink){ .batch = on_calls,
						.outlet = NATIVE_CALLS,
						.region = sink->regions->number,
						.region_user = sink->regions->user };
	batches.user = e;
	if (sink->pool)
		rc = native_workers_open(config, memory, &batches, sink->pool, sink->workers, sink->part, &e->workers);
	else
		rc = native_open(config, memory, &batches, &e->native);
	if (rc < 0) {
		engine_close((struct engine *)e);
		return rc;
	}
	*ret = (struct engine *)e;
	return 0;
}

/* What comes is another engine's. */
static int stopped(struct native_engine *e, int rc)
{
	int told = 0;

	if (rc == -EOPNOTSUPP && e->sink.regions)
		told = native_runs_stop(&e->runs, e->workers ? native_workers_native(e->workers) : e->native);
	return told < 0 ? told : rc;
}

static void *engine_reserve(struct engine *engine, size_t size)
{
	struct native_engine *e = (struct native_engine *)engine;

	return e->workers ? native_workers_reserve(e->workers, size) : NULL;
}

static int engine_push(struct engine *engine, const void *data, size_t size)
{
	struct native_engine *e = (struct native_engine *)engine;

	return stopped(e,
		       e->workers ? native_workers_push(e->workers, data, size) : native_push(e->native, data, size));
}

static int engine_reset(struct engine *engine)
{
	struct native_engine *e = (struct native_engine *)engine;

	return stopped(e, e->workers ? native_workers_reset(e->workers) : native_reset(e->native));
}

static int engine_finish(struct engine *engine)
{
	struct native_engine *e = (struct native_engine *)engine;

	return stopped(e, e->workers ? native_workers_finish(e->workers) : native_finish(e->native));
}

static void engine_stats(const struct engine *engine, struct engine_stats *ret)
{
	const struct native_engine *e = (const struct native_engine *)engine;

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
	.reset = engine_reset,
	.finish = engine_finish,
	.stats = engine_stats,
	.close = engine_close,
};
