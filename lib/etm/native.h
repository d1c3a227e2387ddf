/* SPDX-License-Identifier: MIT */
/*
 * The native engine, for ETMv4 and ETE of A64. native_engine_ops (engine.h) is built upon this interface, which emits
 * executed code as numbers of blocks and edges, in batches, and all else as elements between them.
 *
 *   bytes -> packets (packet.c) -> P0 elements, queued while they are speculative (native-queue.c)
 *         -> blocks that ran (native-flow.c, over blocks.c) -> a batch (native-batch.c)
 *
 * The common packets go from bytes to edges at once (native-fast.c), by a memo of what sequences of them amount to
 * (native-memo.c).
 */
#ifndef CSIGHT_ETM_NATIVE_H
#define CSIGHT_ETM_NATIVE_H

#include "lib/etm/blocks.h"
#include "lib/etm/engine.h"
#include "lib/etm/packet.h"

/*
 * A batch's edges contain two other values: this flag with a number of cycles, which is an element of its own, and
 * NATIVE_EVENT, which stands for the next of the batch's events.
 */
#define NATIVE_CYCLES (1u << 31)
#define NATIVE_EVENT UINT32_MAX

/* Flag of the block of a call: it is torn, as struct element has it. */
#define NATIVE_TORN (1u << 31)

/* Unknown address. No address of an A64 instruction is odd. */
#define NATIVE_UNKNOWN UINT64_MAX

/* What an engine emits. */
enum native_outlet {
	NATIVE_EDGES, /* every range, as an edge */
	NATIVE_CALLS, /* calls, returns, and other changes of region: struct native_call */
	NATIVE_SUMS,  /* how much was executed; a struct native_call only if torn, and for events and cycles */
};

/*
 * Control came to a block from a block of another region, by a call, by a return of any kind, from an unknown place,
 * torn (struct element), or as the first block after an event. Or an event, or cycles, between such blocks. Other
 * control flow within a region is not emitted.
 */
struct native_call {
	uint32_t edge; /* that control came by, 0: unknown; or NATIVE_EVENT, or NATIVE_CYCLES with a number */
	uint32_t to;   /* the block that it came to, with NATIVE_TORN; of events and cycles: the last edge, or 0 */
	uint64_t instructions; /* executed before, in this batch's count */
};

struct native_batch {
	const uint32_t *edges; /* of NATIVE_EDGES */
	size_t n;
	const struct native_call *calls;
	size_t n_calls;
	uint64_t instructions, ranges_before; /* to be added to those of calls, and to ranges */
	/*
	 * Of NATIVE_SUMS and native_emit_stop() alone: instructions executed, and whole blocks, up to the end of the
	 * batch. The members above are to be added to them, too.
	 */
	uint64_t executed, executed_blocks;
	const struct element *events; /* also ranges that are not whole blocks */
	const uint64_t *successors;   /* by event: where a range's code continues, or NATIVE_UNKNOWN */
	const uint64_t *ranges;       /* of calls, by event: how many blocks have run, in this batch's count */
	size_t n_events;
	const struct basic_block *blocks;
	uint32_t n_blocks;       /* more than all their numbers */
	uint64_t numbering;      /* batches of one engine with the same numbering have the same block for each number */
	const uint64_t *offsets; /* of the packets, by edge; or NULL */
};

/* Where an engine's output goes. */
struct native_sink {
	/* A batch and its blocks are valid during the call only. A negative return stops the engine. */
	int (*batch)(void *user, const struct native_batch *batch);
	void *user;
	bool offsets; /* wanted; of NATIVE_EDGES alone */
	enum native_outlet outlet;
	/* NATIVE_CALLS: the number of the region that an address is in, as struct element_regions has it. */
	uint32_t (*region)(void *user, uint64_t address);
	void *region_user; /* NULL: user */
};

struct native;

/* -EOPNOTSUPP: another protocol, data trace, or conditional instructions traced; -ENOMEM. */
int native_open(const struct engine_config *config, const struct engine_memory *memory, const struct native_sink *sink,
		struct native **ret);

/*
 * As in struct engine_ops. -EOPNOTSUPP: the processor entered AArch32; all before is emitted, and the engine accepts no
 * more bytes.
 */
int native_push(struct native *e, const void *data, size_t size);
int native_reset(struct native *e);
int native_settle(struct native *e);
int native_finish(struct native *e);
void native_stats(const struct native *e, struct engine_stats *ret);
struct native *native_close(struct native *e);

/*
 * The same by several threads: chunks of the stream are decoded by a pool, and stitched in order by the thread that
 * pushes. The sink receives the same output, on the pushing thread, some bytes later. Code is read by one thread at a
 * time.
 */
struct native_workers;

struct native_workers_options {
	struct pool *pool;
	unsigned threads_max; /* of the pool that decode chunks at once; the pushing thread decodes, too */
	size_t chunk_size;    /* least bytes of a chunk, all of which the pool decodes; 0: chosen by the engine */
};

int native_workers_open(const struct engine_config *config, const struct engine_memory *memory,
			const struct native_sink *sink, const struct native_workers_options *options,
			struct native_workers **ret);

/*
 * Memory for the next bytes, at most ENGINE_RESERVE_MAX: bytes that are written there before they are pushed are not
 * copied. NULL: none.
 */
uint8_t *native_workers_reserve(struct native_workers *w, size_t size);
int native_workers_push(struct native_workers *w, const void *data, size_t size);
int native_workers_reset(struct native_workers *w);
int native_workers_finish(struct native_workers *w);
void native_workers_stats(const struct native_workers *w, struct engine_stats *ret);
struct native_workers *native_workers_close(struct native_workers *w);

/* Returns the engine that stitches: its state is that of the whole stream. */
const struct native *native_workers_native(const struct native_workers *w);

/* Reads batches of NATIVE_EDGES as elements, one for each edge. */
struct native_reader {
	const struct native_batch *batch;
	size_t at, event;
	uint64_t next; /* where the next range is expected to begin, or NATIVE_UNKNOWN */
};

static inline void native_reader_init(struct native_reader *r)
{
	*r = (struct native_reader){ .next = NATIVE_UNKNOWN };
}

void native_read_batch(struct native_reader *r, const struct native_batch *batch);

/* Returns false at the batch's end. In a batch without offsets, those of ranges and cycles are 0. */
bool native_read(struct native_reader *r, struct element *ret);

/* Sets *ret to the range of an edge, as native_read() reads it, but for torn and offset. */
void native_range(const struct basic_block *b, bool taken, struct element *ret);

/* Sums over batches; next is as in struct native_reader. */
struct native_sums {
	uint64_t next;
	uint64_t instructions, ranges, torn;
	uint64_t others; /* elements that are no range, and ranges without instructions */
	uint64_t blocks; /* those of the ranges that are whole blocks; counted for NATIVE_SUMS alone */
};

/* Adds an event of a batch of NATIVE_EDGES to the sums. */
void native_sum_event(struct native_sums *s, const struct native_batch *b, size_t event);

/* Adds a batch of NATIVE_EDGES. */
void native_sum(struct native_sums *s, const struct native_batch *b);

/* Adds a batch of NATIVE_SUMS. */
void native_sum_executed(struct native_sums *s, const struct native_batch *b);

/* Where the code continues behind an edge, or NATIVE_UNKNOWN. */
static inline uint64_t native_successor(const struct basic_block *blocks, uint32_t edge)
{
	const struct basic_block *b = &blocks[edge_block(edge)];

	return edge_is_taken(edge) ? b->target : block_end(b);
}

/* Emits the last batch of NATIVE_CALLS of an engine that has stopped: NATIVE_EVENT without an event ends what ran. */
int native_emit_stop(const struct native *e, const struct native_sink *sink);

#endif
