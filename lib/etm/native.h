/*
 * The native engine's own interface, which native_engine_ops stands on: what ran as numbers of blocks, a batch at a
 * time, and what else there is to say as elements between them. It takes ETMv4 and ETE of A64.
 *
 *   bytes -> packets (packet.c) -> P0 elements, held back while they are speculative (native-queue.c)
 *         -> blocks that ran (native-flow.c, over blocks.c) -> a batch
 */
#ifndef CSIGHT_ETM_NATIVE_H
#define CSIGHT_ETM_NATIVE_H

#include "lib/etm/blocks.h"
#include "lib/etm/engine.h"
#include "lib/etm/packet.h"

/*
 * A edge of a batch: twice a block's number, and one more where its branch was taken; or this flag and a number of
 * cycles, which is an element of its own; or the next event.
 */
#define NATIVE_CYCLES (1u << 31)
#define NATIVE_EVENT UINT32_MAX

/* Of the block that control came to: it is torn. */
#define NATIVE_TORN (1u << 31)

/* Where the code goes from there is not known. No address of an instruction is odd. */
#define NATIVE_UNKNOWN UINT64_MAX

enum native_outlet {
	NATIVE_EDGES,  /* every range */
	NATIVE_CALLS,  /* where control goes from region to region, and calls and returns: struct native_call */
	NATIVE_COUNTS, /* how often: struct native_count, when it is over; and events */
};

/*
 * Control came to a block that is in another region than the one that it left, or by a call, a return of any kind, from
 * nowhere, torn as struct element has it, or first after an event. Or, in between, an event or cycles. What else goes
 * on within a region is not told of.
 */
struct native_call {
	uint32_t edge; /* the block that it left, as edges have it; 0: nobody knows; or NATIVE_EVENT, NATIVE_CYCLES */
	uint32_t to;   /* the block that it came to, with NATIVE_TORN; else what ran last, as a edge, or 0 */
	uint64_t instructions; /* executed before, in this batch's count */
};

/*
 * How often a block ran and was left the one way, or by an indirect branch that went to another block. The same may be
 * told several times, and n may be negative: all of them together, modulo 2^64, are what ran.
 */
struct native_count {
	uint32_t edge;
	uint32_t to; /* 0: all that left this way */
	uint64_t n;
};

struct native_batch {
	const uint32_t *edges; /* of all outlets but NATIVE_CALLS */
	size_t n;
	const struct native_call *calls;
	size_t n_calls;
	uint64_t instructions, ranges_before; /* to be added to those of calls, and to ranges */
	const struct native_count *counts;
	size_t n_counts;
	const struct element *events; /* with ranges that are no whole blocks among them */
	const uint64_t *successors;   /* by event: where a range's code goes on, or NATIVE_UNKNOWN */
	const uint64_t *ranges;       /* of NATIVE_CALLS, by event: how many blocks have run, in this batch's count */
	size_t n_events;
	const struct basic_block *blocks;
	const uint64_t *offsets; /* of the packets, one a edge; or NULL */
};

struct native_sink {
	/* What is in a batch is gone afterwards, and so may be the blocks. A negative return stops the engine. */
	int (*batch)(void *user, const struct native_batch *batch);
	void *user;
	bool offsets; /* wanted; of edges alone */
	enum native_outlet outlet;
	/* NATIVE_CALLS: the number of the region that an address is in, as struct element_regions has them. */
	uint32_t (*region)(void *user, uint64_t address);
	void *region_user; /* NULL: user */
};

struct native;

/* -EOPNOTSUPP: of another protocol, or with data trace, or with conditional instructions traced; -ENOMEM. */
int native_open(const struct engine_config *config, const struct engine_memory *memory, const struct native_sink *sink,
		struct native **ret);

/*
 * As struct engine_ops has them. -EOPNOTSUPP: the processor went to AArch32, and everything before is told; it takes no
 * more then.
 */
int native_push(struct native *e, const void *data, size_t size);
int native_reset(struct native *e);
int native_finish(struct native *e);
void native_stats(const struct native *e, struct engine_stats *ret);
struct native *native_close(struct native *e);

/*
 * The same by several threads, at most so many of a pool and the one that pushes, which take parts. part 0: as is good;
 * else they are of at least so many bytes, and all that can be are decoded on their own, by the pool. What goes to the
 * sink is the same, and does so on the thread that pushes, some bytes later. memory is asked by one thread at a time.
 */
struct native_workers;
struct pool;
int native_workers_open(const struct engine_config *config, const struct engine_memory *memory,
			const struct native_sink *sink, struct pool *pool, unsigned most, size_t part,
			struct native_workers **ret);
/* Where the next bytes may be put before they are pushed, at most ENGINE_RESERVE_MAX of them: they are not copied then.
 * Or NULL. */
uint8_t *native_workers_reserve(struct native_workers *w, size_t size);
int native_workers_push(struct native_workers *w, const void *data, size_t size);
int native_workers_reset(struct native_workers *w);
int native_workers_finish(struct native_workers *w);
void native_workers_stats(const struct native_workers *w, struct engine_stats *ret);
struct native_workers *native_workers_close(struct native_workers *w);

/* The engine that stands for all of them, where they stand. */
const struct native *native_workers_native(const struct native_workers *w);

/* Reads batches as the elements that they are: one after another, none left out. */
struct native_reader {
	const struct native_batch *batch;
	size_t at, event;
	uint64_t next; /* where the next range begins, if the one before it is to be believed */
};

static inline void native_reader_init(struct native_reader *r)
{
	*r = (struct native_reader){ .next = NATIVE_UNKNOWN };
}

void native_read_batch(struct native_reader *r, const struct native_batch *batch);

/* False: that was all. Without offsets in the batch those of ranges and cycles are 0. */
bool native_read(struct native_reader *r, struct element *ret);

/* Where the code goes on behind a edge; NATIVE_UNKNOWN. */
static inline uint64_t native_successor(const struct basic_block *blocks, uint32_t edge)
{
	const struct basic_block *b = &blocks[edge_block(edge)];

	return edge_taken(edge) ? b->target : block_end(b);
}

/* Reads batches of NATIVE_CALLS as elements, with several ranges in one. */
struct native_runs {
	struct element run; /* that has begun, if it has */
	bool begun;
	uint64_t since;  /* instructions before it */
	uint64_t cycles; /* within it, so far */
	uint64_t told;   /* ranges */
	struct element_sink sink;
};

void native_runs_init(struct native_runs *r, const struct element_sink *sink);

/* What the sink returned. */
int native_runs_batch(struct native_runs *r, const struct native_batch *batch);

/* Its engine stopped: what has begun ends. What the sink returned. */
int native_runs_stop(struct native_runs *r, const struct native *e);

#endif
