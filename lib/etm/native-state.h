/* Between the files of the native engine. */
#ifndef CSIGHT_ETM_NATIVE_STATE_H
#define CSIGHT_ETM_NATIVE_STATE_H

#include "lib/etm/native.h"

/* Negative errno is what it is; this is a mistake in the stream, which ends what could be made of it. */
#define NATIVE_BAD 1

enum { RETURN_STACK = 16, QUEUE_MAX = 1 << 18 };

/* What the flow waits for. */
enum native_need {
	NEED_NOTHING,
	NEED_TARGET,  /* an indirect branch's: an address, or what the return stack has */
	NEED_ADDRESS, /* an address */
};

enum native_sync {
	SYNC_LOST, /* and nobody has been told */
	SYNC_WAIT,
	SYNC_WAIT_INFO,
	SYNC_DONE,
};

/* P0 elements, and what stands between them. */
enum p0_kind {
	P0_ATOMS,
	P0_EXCEPTION,
	P0_SOURCE,
	P0_Q,
	P0_UNSEEN, /* from before the synchronisation point */
	P0_TRACE_ON,
	P0_EXCEPTION_RETURN,
	P0_ADDRESS,
	P0_CONTEXT,
	P0_INFO,
	P0_TRANSACTION, /* is P0 where its start is, by TRCIDR0.COMMTRANS */
	P0_TIMESTAMP,
	P0_CYCLES,
	P0_EVENT,
	P0_MARKER,
	P0_INSTRUMENTATION,
	P0_CANCELLED,
};

enum { TRANSACTION_START, TRANSACTION_COMMIT, TRANSACTION_FAIL, TRANSACTION_INIT };

struct p0 {
	uint8_t kind;
	uint8_t n_atoms;
	bool flag; /* exception: its address is the last branch's target; Q: it has an address; transaction: it is P0 */
	uint8_t level;   /* instrumentation; exception: it is a reset */
	uint32_t number; /* exception, Q, transaction, unseen; atoms: their pattern */
	uint32_t cycles;
	uint64_t value; /* address, timestamp, event, instrumentation */
	uint64_t offset;
	struct packet_context context;
};

/* What ran from a block on by some packets of atoms, or by what is left of one. */
enum { ENTRY_EDGES = 11, ENTRY_CALLS = 4, ENTRY_RANGES_BITS = 7 };
struct memo_entry {
	uint64_t key;     /* block << 32 | packets, or | what is left of one */
	uint32_t end;     /* the block where control is then, or GONE and the block that it left */
	uint32_t rest;    /* atoms left when control was gone, as the low half of a key; 0: none */
	uint8_t n;        /* edges, or calls */
	uint8_t used;     /* packets */
	uint8_t n_pushes; /* calls with link, whose blocks are at the end of edges, the first one last */
	bool pooled;      /* the first edge is where the others are */
	/*
	 * Words; of NATIVE_CALLS four, of which the first has the instructions above ENTRY_RANGES_BITS of how many
	 * blocks, and then three for each call; of NATIVE_COUNTS the first is how often.
	 */
	uint32_t edges[ENTRY_EDGES];
};

/* Control left this block by an indirect branch, and where to is not known yet. */
#define GONE (1u << 31)

/*
 * What is to be told. While a part is decoded these are places in a capacity, where one batch is behind another, and
 * nothing that was told goes away.
 */
struct native_batch_builder {
	struct native_call *calls;
	size_t n_calls, calls_capacity;
	uint32_t *edges;
	uint64_t *offsets;
	struct element *events;
	uint64_t *successors, *ranges;
	size_t n, capacity, n_events, events_capacity;
};

struct native {
	struct engine_config config;
	struct native_sink sink;
	struct packet_reader packets;
	struct blocks blocks;
	struct engine_context context;
	struct engine_stats stats;
	struct native_batch_builder out;
	/*
	 * In out: what is behind them is lost when the stream turns out to be bad before the next P0 element.
	 */
	size_t mark, mark_events;
	struct native_memo *memo;
	struct native_fold *fold; /* of outlets that do not tell everything; else NULL */
	int error;                /* it takes nothing more */

	uint8_t carry[PACKET_MAX]; /* the head of a packet that goes on in bytes to come */
	size_t n_carry;
	unsigned zeros; /* in front of a synchronisation packet that is looked for */
	bool framed;    /* packets follow each other */
	bool counted;   /* they count as understood */

	enum native_sync sync;
	enum element_reason lost; /* why */
	bool overflow;            /* was the last thing before what is lost */
	bool timestamps;          /* are to be told of: not before the first marker where there are some */
	uint64_t offset;          /* of the packet at hand */

	struct p0 *queue; /* held back: a ring */
	size_t first, n_queue, queue_capacity;
	int64_t depth; /* P0 elements in it, but for those that did not get the address that they count from */
	bool pending;  /* the newest P0 element counts from its address on */

	bool has_context;
	enum native_need need;
	uint32_t block;      /* where control is, or 0: at the address */
	uint64_t address;    /* where control is when block is 0; behind the branch when its target is needed */
	struct element told; /* the context, as told last */
	bool return_stack;
	bool stack_waits; /* for the first address after trace info */
	uint8_t top, entries;
	struct {
		uint32_t block; /* that called; 0: the address is that to return to */
		uint32_t open;  /* it is not known, but that it is this one of those that were there; of no block */
		uint64_t address;
	} stack[RETURN_STACK];
	struct native_chunk *part; /* that this is to decode, without what came before it; or NULL */
	bool ete;
};

/* native-batch.c */
int native_batch_add_event(struct native *e, const struct element *event, uint64_t offset);
/* A range that is no whole block; where its code goes on. */
int native_batch_add_range(struct native *e, const struct element *range, uint64_t successor, uint64_t offset);
int native_batch_add_edge(struct native *e, uint32_t block, bool taken, uint64_t offset);
int native_batch_grow_calls(struct native *e);

/* What is settled has been told. -ENOMEM. */
int native_batch_drop_committed(struct native *e);
void native_batch_free(struct native *e);

/* native.c */
/* What is not to be lost any more goes to the sink. */
int native_flush(struct native *e);

/* Of a edge: an indirect branch that was taken. */
static inline bool is_indirect(const struct native *e, uint32_t edge)
{
	return edge_taken(edge) && e->blocks.list[edge_block(edge)].kind == INSTR_IBR;
}

static inline void native_batch_commit(struct native *e)
{
	e->mark = e->out.n;
	e->mark_events = e->out.n_events;
}

/* native-queue.c: what a packet adds and settles. NATIVE_BAD. */
int native_queue_packet(struct native *e, const struct packet *p);
int native_queue_info(struct native *e, const struct packet *p);
int native_queue_finish(struct native *e);
void native_queue_clear(struct native *e);

/* At the end of the queue, as they are. -ENOMEM. */
int native_queue_append(struct native *e, const struct p0 *list, size_t n);

/* native-flow.c. NATIVE_BAD. */
int native_flow_atom(struct native *e, bool taken, uint64_t offset);
void native_flow_address(struct native *e, uint64_t address);
int native_flow_context(struct native *e, const struct packet_context *c, uint64_t offset);
int native_flow_time(struct native *e, uint64_t time);
int native_flow_exception(struct native *e, const struct p0 *p, const struct p0 *address, const struct p0 *context);
int native_flow_q(struct native *e, const struct p0 *p, uint64_t address);
int native_flow_source(struct native *e, const struct p0 *p);
void native_flow_lost(struct native *e);

/* Of a branch with link. */
void native_flow_call(struct native *e, uint32_t block, uint64_t address);

/* Where an indirect branch went whose target the stream does not tell, if that is what is waited for. NATIVE_BAD. */
int native_flow_return(struct native *e);

/* Forgets all blocks, which are in nobody's hands then. */
int native_flow_renew(struct native *e);

/*
 * native-memo.c: entries by key. learn() makes one: 1 where it is not to be remembered what happens, -ENOMEM. NULL: it
 * is not there.
 */
enum { MEMO_TRIED_BITS = 14 };
struct native_memo {
	struct memo_entry *entries;
	unsigned bits;
	uint32_t misses; /* since it was made or grew */
	uint32_t *tried; /* by hash, the key that was asked for last and not found */
	uint32_t *pool;
	uint32_t n_pool, pool_capacity;
};

struct native_memo *native_memo_new(void);
int native_memo_clear(struct native *e);
struct native_memo *native_memo_free(struct native_memo *m);
int native_memo_learn(struct native *e, uint64_t key, struct memo_entry **ret);

static inline uint64_t native_memo_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

/* Where an entry is, and where it is when another one has taken its place. */
static inline struct memo_entry *native_memo_slot(const struct native_memo *m, uint64_t key)
{
	return &m->entries[native_memo_hash(key) >> (64 - m->bits)];
}

/* Whether it was asked for before, and not too long ago. */
static inline bool native_memo_tried(struct native_memo *m, uint64_t key)
{
	uint64_t hash = native_memo_hash(key);
	uint32_t *tried = &m->tried[hash >> (64 - MEMO_TRIED_BITS)], tag = (uint32_t)(hash >> 8);
	bool before = *tried == tag;

	*tried = tag;
	return before;
}

static inline struct memo_entry *native_memo_second(const struct native_memo *m, const struct memo_entry *first)
{
	return &m->entries[(size_t)(first - m->entries) ^ 1];
}

/*
 * native-fold.c: what is left of edges. What had to be taken packet by packet is folded when it is settled, so that
 * nothing of it is to be taken back.
 */
struct native_fold {
	uint32_t last;                 /* the edge that ran last; 0: what ran last was no block */
	uint64_t instructions, ranges; /* of NATIVE_CALLS */
	uint64_t successor;            /* where control goes on, when what ran last was no block */
	bool fresh;                    /* nothing ran since an event was told */
	size_t events, kept;           /* that have been folded; edges that are only to be told */
	uint32_t *regions; /* two for each block: of its first and its last instruction; 0: not looked up yet */
	uint64_t *counts;  /* by edge */
	uint32_t capacity; /* blocks */
	struct native_count *targets; /* a hash, by edge and target */
	size_t n_targets, targets_capacity;
};

struct native_fold *native_fold_new(void);
struct native_fold *native_fold_free(struct native_fold *f);

/* The settled edges. -ENOMEM. */
int native_fold_edges(struct native *e);

/* In a region: control comes from there, or to there, in a way that is always told. */
#define FOLD_ALWAYS (1u << 31)

/* A call, or a return of any kind. */
static inline bool native_fold_is_call(const struct basic_block *b, bool taken)
{
	return taken && (b->sub == SUB_LINK || b->sub == SUB_RET || b->sub == SUB_ERET);
}

/* In place of a edge's region: it is told where control came to; and so it is, as torn. No region has these. */
#define FOLD_FRESH UINT32_MAX
#define FOLD_TORN (UINT32_MAX - 1)

/* A edge's region when control left it, to be compared with the entry's of what comes next. */
uint32_t native_fold_left(struct native *e, uint32_t edge);

/* Control that is there was expected elsewhere; last: the edge that ran last, or 0. */
bool native_fold_torn(const struct native *e, uint32_t last, uint64_t address);

/* An indirect branch went there. -ENOMEM. */
int native_fold_count_target(struct native *e, uint32_t edge, uint32_t to);

/* An entry of NATIVE_CALLS: edges become those of calls. -ENOMEM. */
int native_fold_entry(struct native *e, struct memo_entry *to, uint32_t *edges, unsigned *n_edges);

/* An entry of NATIVE_COUNTS goes: what it counted is kept. -ENOMEM. */
int native_fold_count_entry(struct native *e, const struct memo_entry *entry);

/* What was counted goes to the sink; before blocks are forgotten, too. */
int native_fold_finish(struct native *e);

/* Blocks have been forgotten; this one ran last, if any did. -ENOMEM. */
int native_fold_renew(struct native *e, const struct basic_block *last);

/*
 * native-fast.c. Takes packets as long as they are of the common kinds and nothing is held back: how many bytes that
 * was goes to *ret_used. NATIVE_BAD, of the last of them; negative errno, also of the sink.
 */
int native_fast_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset, size_t *ret_used);

#endif
