/* SPDX-License-Identifier: MIT */
/*
 * The state of the native engine, which its files share. Each group of fields names the files that write it; besides
 * them, native-chunk.c saves and restores all that a checkpoint has.
 *
 * Functions return 0 or a negative errno, which stops the engine, and NATIVE_BAD where their comments say so.
 */
#ifndef CSIGHT_ETM_NATIVE_STATE_H
#define CSIGHT_ETM_NATIVE_STATE_H

#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native.h"

/* Results besides 0 and negative errno. */
enum native_result {
	/* The stream is malformed: what was emitted since the last commit is dropped, and synchronization is lost. */
	NATIVE_BAD = 1,
	/* Nothing was consumed: the caller decodes the next packet by itself, without the memo. */
	NATIVE_STEP,
	/* Of the fast path: atoms were consumed one by one, and its loop has to end. */
	NATIVE_STEPPED,
};

enum { RETURN_STACK = 16, QUEUE_MAX = 1 << 18 };

/* What is needed to know where control is. */
enum native_need {
	NEED_NOTHING,
	NEED_TARGET,  /* an indirect branch's target: an address packet, or the top of the return stack */
	NEED_ADDRESS, /* an address packet */
};

enum native_sync_state {
	SYNC_LOST, /* and the element that reports it is not emitted yet */
	SYNC_WAIT,
	SYNC_WAIT_INFO,
	SYNC_DONE,
};

/* What the queue holds: P0 elements, up to P0_UNSEEN, and the elements between them. */
enum p0_kind {
	P0_ATOMS,
	P0_EXCEPTION,
	P0_SOURCE,
	P0_Q,
	P0_UNSEEN, /* uncommitted elements from before the synchronization point */
	P0_TRACE_ON,
	P0_EXCEPTION_RETURN,
	P0_ADDRESS,
	P0_CONTEXT,
	P0_INFO,
	P0_TRANSACTION, /* its start is a P0 element, by TRCIDR0.COMMTRANS */
	P0_TIMESTAMP,
	P0_CYCLES,
	P0_EVENT,
	P0_MARKER,
	P0_INSTRUMENTATION,
	P0_CANCELLED,
};

enum { TRANSACTION_START, TRANSACTION_COMMIT, TRANSACTION_FAIL, TRANSACTION_INIT };

/* Without padding, as checkpoints compare it by memcmp(). */
struct p0 {
	uint8_t kind;
	uint8_t n_atoms;
	bool flag;       /* exception: its address is the last branch's target; Q: it has an address; transaction: P0 */
	uint8_t level;   /* instrumentation; exception: it is a reset */
	uint32_t number; /* exception, Q, transaction, unseen; atoms: their pattern */
	uint32_t cycles;
	uint32_t unused;
	uint64_t value; /* address, timestamp, event, instrumentation */
	uint64_t offset;
	struct packet_context context;
};
_Static_assert(sizeof(struct p0) == 48, "padding is not comparable");

/*
 * Flag of a block number that stands for a place of control: control left this block by an indirect branch, whose
 * target is not known yet. The flag alone: the block is unknown, too.
 */
#define UNRESOLVED (1u << 31)

/*
 * A memo entry: what ran from a block on, by up to four atom packets or by the remaining atoms of one. Edges of long
 * entries are in the memo's pool; the list in the entry has their index there as its first item. The blocks of calls
 * with link stand at the end of raw, the first one last.
 */
enum { ENTRY_SIZE = 11, ENTRY_RANGES_BITS = 7 };
struct memo_entry {
	uint64_t key;  /* block << 32 | bytes of the packets, or | remaining atoms as native-memo.c encodes them */
	uint32_t end;  /* the block that control came to; or UNRESOLVED, and the block that it left */
	uint32_t rest; /* the atoms left when control became unresolved, as the low half of a key; 0: none */
	uint8_t n;     /* edges, or calls */
	uint8_t used;  /* packets */
	uint8_t n_pushes;
	bool pooled;
	union {
		uint32_t raw[ENTRY_SIZE];
		uint32_t edges[ENTRY_SIZE]; /* NATIVE_EDGES */
		struct {
			uint32_t executed;  /* instructions << ENTRY_RANGES_BITS | ranges */
			uint32_t last_edge; /* that ran */
			uint32_t entered;   /* region of the first block's start */
			uint32_t left;      /* region of the last edge, as native_fold_left() has it */
			uint32_t list[ENTRY_SIZE - 4];
		} calls; /* list: for each call the edge that was left, the block, the instructions before */
	};
};
_Static_assert(sizeof(struct memo_entry) == 64, "an entry is a cache line");

static inline uint32_t *entry_pushed(struct memo_entry *e, unsigned i)
{
	return &e->raw[ENTRY_SIZE - 1 - i];
}

/*
 * The batch that is being built. While a chunk is decoded, the lists are in a buffer in which batches follow each other
 * and nothing that was emitted moves. Entries behind the committed ones are dropped if the stream turns out to be
 * malformed before the next P0 element. Writers: native-batch.c, native-fast.c, native-fold.c.
 */
struct native_batch_builder {
	struct native_call *calls;
	size_t n_calls, calls_capacity;
	uint32_t *edges;
	uint64_t *offsets;
	struct element *events;
	uint64_t *successors, *ranges;
	size_t n, capacity, n_events, events_capacity;
	struct {
		size_t edges, events;
	} committed;
};

/* How bytes become packets. Writer: native.c. */
struct native_framing {
	uint8_t carry[PACKET_MAX]; /* the head of a packet whose end is not there yet */
	size_t n_carry;
	unsigned zeros; /* in front of a synchronization packet that is searched for */
	bool framed;    /* packet boundaries are known */
};

/* Writers: native.c; native-queue.c on overflow and discard. Compared by memcmp(). */
struct native_sync {
	uint8_t state;  /* enum native_sync_state */
	uint8_t reason; /* enum element_reason: why it was lost */
	bool counted;   /* packets count as decoded */
	bool unused;
};
_Static_assert(sizeof(struct native_sync) == 4, "padding is not comparable");

/* P0 elements that are not committed yet, in order. Writer: native-queue.c. */
struct native_queue_state {
	int64_t
	    depth; /* P0 elements in the queue, without those whose address, from which on they count, is not there */
	bool pending;    /* the newest P0 element counts from its address on */
	bool overflow;   /* the last thing before the loss of synchronization */
	bool timestamps; /* are emitted: from the first marker on, where the source has markers */
	uint8_t unused[5];
};
_Static_assert(sizeof(struct native_queue_state) == 16, "padding is not comparable");

struct native_queue {
	struct p0 *list; /* a ring */
	size_t first, n, capacity;
	struct native_queue_state state;
};

/* Where control is, and in which context. Writers: native-flow.c, native-fast.c. Compared by memcmp(). */
struct native_control {
	uint64_t address; /* where control is, when block is 0; behind the branch, when its target is needed */
	uint32_t block;   /* where control is; 0: at the address */
	uint8_t need;     /* enum native_need */
	bool has_context;
	bool stack_blocked;                 /* no pushes and pops, from trace info up to the first address */
	bool stack_holed;                   /* the trace unit's may have entries below those here */
	uint8_t isa, level, security, bits; /* of the context, as struct element has them */
	uint8_t unused[4];
};
_Static_assert(sizeof(struct native_control) == 24, "padding is not comparable");

/* The trace unit's return stack (IHI0064, "Return stack"); a push on a full one drops the oldest entry. */
struct native_return_stack {
	bool enabled;
	uint8_t top, n;
	struct {
		uint32_t block; /* that called; 0: the address is the return address */
		uint32_t open; /* of no block: the address is unknown, it is this entry of the stack before the chunk */
		uint64_t address;
	} slots[RETURN_STACK];
};

struct native {
	struct engine_config config;
	struct native_sink sink;
	bool ete;
	int error; /* that stopped it */

	struct packet_reader packets;
	struct blocks blocks;
	struct native_memo *memo;
	struct native_fold *fold;   /* for NATIVE_CALLS and NATIVE_SUMS; else NULL */
	struct native_chunk *chunk; /* that is being decoded without the state before it, or NULL */

	struct native_framing framing;
	struct native_sync sync;
	struct native_queue queue;
	struct native_control control;
	struct native_return_stack stack;
	struct engine_context context; /* writer: native-flow.c */
	struct native_batch_builder batch;

	uint64_t offset;           /* of the current packet */
	struct engine_stats stats; /* writers: native.c, native-fast.c */
};

/* Returns the slot of the i-th newest entry. */
static inline unsigned return_stack_slot(const struct native_return_stack *s, unsigned i)
{
	return (s->top + RETURN_STACK - i) % RETURN_STACK;
}

static inline void return_stack_advance(struct native_return_stack *s)
{
	s->top = (s->top + 1) % RETURN_STACK;
	s->n = (uint8_t)MIN(s->n + 1, RETURN_STACK);
}

/* block called, with link. */
static inline void return_stack_push_block(struct native_return_stack *s, uint32_t block)
{
	return_stack_advance(s);
	s->slots[s->top].block = block;
}

static inline void return_stack_push_address(struct native_return_stack *s, uint64_t address)
{
	return_stack_advance(s);
	s->slots[s->top].block = s->slots[s->top].open = 0;
	s->slots[s->top].address = address;
}

/* Drops the newest entry, of at least one. */
static inline void return_stack_pop(struct native_return_stack *s)
{
	s->top = (s->top + RETURN_STACK - 1) % RETURN_STACK;
	s->n--;
}

/* Returns whether the i-th newest entry is one from before the chunk, of unknown address. */
static inline bool return_stack_is_open(const struct native_return_stack *s, unsigned i)
{
	unsigned slot = return_stack_slot(s, i);

	return !s->slots[slot].block && s->slots[slot].open;
}

/* native.c */
/* Passes what is committed to the sink, and removes it from the batch. Returns what the sink returned if negative. */
int native_flush(struct native *e);

/* native-batch.c. Functions return -ENOMEM. */
int native_batch_add_event(struct native *e, const struct element *event, uint64_t offset);
/* Adds a range that is not a whole block. successor: where its code continues. */
int native_batch_add_range(struct native *e, const struct element *range, uint64_t successor, uint64_t offset);
int native_batch_add_edge(struct native *e, uint32_t block, bool taken, uint64_t offset);
int native_batch_grow_calls(struct native *e);

/* Removes what is committed. */
int native_batch_drop_committed(struct native *e);

/* Frees the lists of an engine that decodes no chunk. */
void native_batch_free(struct native *e);

static inline void native_batch_commit(struct native *e)
{
	e->batch.committed.edges = e->batch.n;
	e->batch.committed.events = e->batch.n_events;
}

/* Drops what is not committed. */
static inline void native_batch_cancel(struct native *e)
{
	e->batch.n = e->batch.committed.edges;
	e->batch.n_events = e->batch.committed.events;
}

static inline void native_batch_clear(struct native *e)
{
	e->batch.n = e->batch.n_events = e->batch.n_calls = 0;
	native_batch_commit(e);
}

/* native-queue.c. Adds what a packet means to the queue, and commits or cancels what it says. NATIVE_BAD. */
int native_queue_packet(struct native *e, const struct packet *p);

/* Handles trace info at a synchronization point. NATIVE_BAD. */
int native_queue_info(struct native *e, const struct packet *p);

/* Emits, at the end of the trace, what stands before the first element of which it is unknown whether it executed. */
int native_queue_finish(struct native *e);

/* Emits timestamps and the like, which no P0 element precedes any more. */
int native_queue_settle(struct native *e);

/* Drops all elements, and forgets overflows and markers. */
void native_queue_reset(struct native *e);

/* Drops all elements. */
void native_queue_clear(struct native *e);

/* Appends elements as they are. -ENOMEM. */
int native_queue_append(struct native *e, const struct p0 *list, size_t n);

/* native-flow.c. NATIVE_BAD. */
int native_flow_atom(struct native *e, bool taken, uint64_t offset);
void native_flow_address(struct native *e, uint64_t address);
int native_flow_context(struct native *e, const struct packet_context *c, uint64_t offset);
int native_flow_time(struct native *e, uint64_t time);
int native_flow_exception(struct native *e, const struct p0 *p, const struct p0 *address, const struct p0 *context);
int native_flow_q(struct native *e, const struct p0 *p, uint64_t address);
int native_flow_source(struct native *e, const struct p0 *p);

/* Forgets where control is, and the context. */
void native_flow_forget(struct native *e);

/* Trace info: the return stack is empty, and not used before the next address. */
void native_flow_info(struct native *e);

/* Empties the return stack, as the trace unit has emptied its own. */
void native_flow_empty_stack(struct native *e);

/*
 * Pops the return stack where the target of an indirect branch is needed. NATIVE_BAD: the stack is empty. Where the
 * entry is unknown, control is lost: it is one from before code that is missing, or one from before the chunk, which
 * is broken then.
 */
int native_flow_return(struct native *e, uint64_t offset);

/* Clears the blocks and what refers to them; no batch may refer to them any more. */
int native_flow_renew(struct native *e);

/*
 * native-memo.c: a cache of entries by key, of two slots for each: a new entry goes to the first one, and the entry
 * that was there to the second.
 */
enum { MEMO_TRIED_BITS = 14 };
struct native_memo {
	struct memo_entry *entries;
	unsigned bits;   /* log2 of their number */
	uint32_t misses; /* since it was created or grew */
	uint32_t *tried; /* tags of keys, by hash: the last key that was looked for in vain */
	uint32_t *pool;
	uint32_t n_pool, pool_capacity;
};

struct native_memo *native_memo_new(void);
void native_memo_clear(struct native *e);
struct native_memo *native_memo_free(struct native_memo *m);

/* Creates the entry of a key. NATIVE_STEP: what happens there cannot be an entry. -ENOMEM. */
int native_memo_learn(struct native *e, uint64_t key, struct memo_entry **ret);

static inline uint64_t native_memo_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

/* Returns the first slot of a key. */
static inline struct memo_entry *native_memo_slot(const struct native_memo *m, uint64_t key)
{
	return &m->entries[native_memo_hash(key) >> (64 - m->bits)];
}

/* Returns the second slot of a key, by its first. */
static inline struct memo_entry *native_memo_second(const struct native_memo *m, const struct memo_entry *first)
{
	return &m->entries[(size_t)(first - m->entries) ^ 1];
}

/* True if the key was asked for recently; records that it was asked for now. */
static inline bool native_memo_tried(struct native_memo *m, uint64_t key)
{
	uint64_t hash = native_memo_hash(key);
	uint32_t *tried = &m->tried[hash >> (64 - MEMO_TRIED_BITS)], tag = (uint32_t)(hash >> 8);
	bool before = *tried == tag;

	*tried = tag;
	return before;
}

/* The regions of a block's first and last instruction, plus one; 0: not looked up yet. */
struct fold_regions {
	uint32_t first, last;
};

/*
 * native-fold.c: reduces edges to calls, for the outlet that does not pass on each range. Edges that were
 * decoded packet by packet are folded when they are committed, as folding cannot be undone.
 */
struct native_fold {
	uint32_t last;                 /* the last edge; 0: what ran last was not a whole block */
	uint64_t instructions, ranges; /* executed so far */
	uint64_t successor;            /* where control continues, when last is 0; or NATIVE_UNKNOWN */
	bool fresh;                    /* nothing has run since the last event */
	size_t events;                 /* events of the batch that are folded */
	struct fold_regions *regions;  /* by block */
	uint32_t capacity;             /* of regions, in blocks */
};

struct native_fold *native_fold_new(void);
struct native_fold *native_fold_free(struct native_fold *f);

/* Folds the committed edges. -ENOMEM. */
int native_fold_edges(struct native *e);

/* Flag of a region: control enters or leaves there in a way that is always emitted as a call. */
#define FOLD_ALWAYS (1u << 31)

/* Returns whether the edge always emits a struct native_call: it is a call with link, or a return of any kind. */
static inline bool native_fold_always_emits(const struct basic_block *b, bool taken)
{
	return taken && (b->sub == SUB_LINK || b->sub == SUB_RET || b->sub == SUB_ERET);
}

/* In place of the region that was left, none of which is equal: the next block is a call; and a torn one. */
#define FOLD_FRESH UINT32_MAX
#define FOLD_TORN (UINT32_MAX - 1)

/* Returns the region that control left by this edge, to be compared with the one of the next block's start. */
uint32_t native_fold_left(struct native *e, uint32_t edge);

/* Returns whether control at address does not follow from the last edge; last 0: from the last partial range. */
bool native_fold_torn(const struct native *e, uint32_t last, uint64_t address);

/* Completes an entry, and replaces the edges by its calls, *n values in all. -ENOMEM. */
int native_fold_entry(struct native *e, struct memo_entry *to, uint32_t *edges, unsigned *n);

/* Begins again after blocks were cleared. last: the block that ran last, if any did. -ENOMEM. */
int native_fold_renew(struct native *e, const struct basic_block *last);

/*
 * native-fast.c. Decodes packets as long as they are of the common kinds and the queue is empty; *ret_used: how many
 * bytes that was. NATIVE_BAD: the last of them is a malformed packet. Negative errno, also of the sink.
 */
int native_fast_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset, size_t *ret_used);

#endif
