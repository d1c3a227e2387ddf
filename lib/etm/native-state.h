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
enum { ENTRY_WORDS = 11, ENTRY_CALLS = 4, ENTRY_RANGES_BITS = 7 };
struct entry {
	uint64_t key;     /* block << 32 | packets, or | what is left of one */
	uint32_t end;     /* the block where control is then, or GONE and the block that it left */
	uint32_t rest;    /* atoms left when control was gone, as the low half of a key; 0: none */
	uint8_t n;        /* words, or calls */
	uint8_t used;     /* packets */
	uint8_t n_pushes; /* calls with link, whose blocks are at the end of words, the first one last */
	bool pooled;      /* the first word is where the others are */
	/*
	 * Words; of NATIVE_CALLS four, of which the first has the instructions above ENTRY_RANGES_BITS of how many
	 * blocks, and then three for each call; of NATIVE_COUNTS the first is how often.
	 */
	uint32_t words[ENTRY_WORDS];
};

/* Control left this block by an indirect branch, and where to is not known yet. */
#define GONE (1u << 31)

/*
 * What is to be told. While a part is decoded these are places in a room, where one batch is behind another, and
 * nothing that was told goes away.
 */
struct native_out {
	struct native_call *calls;
	size_t n_calls, calls_room;
	uint32_t *words;
	uint64_t *offsets;
	struct element *events;
	uint64_t *leads, *ranges;
	size_t n, room, n_events, events_room;
};

struct native {
	struct engine_config config;
	struct native_sink sink;
	struct packets packets;
	struct blocks blocks;
	struct engine_context context;
	struct engine_stats stats;
	struct native_out out;
	/*
	 * In out: what is behind them is lost when the stream turns out to be bad before the next P0 element.
	 */
	size_t mark, mark_events;
	struct memo *memo;
	struct fold *fold; /* of outlets that do not tell everything; else NULL */
	int error;         /* it takes nothing more */

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
	size_t first, n_queue, queue_room;
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
	struct native_part *part; /* that this is to decode, without what came before it; or NULL */
	bool ete;
};

/* native-out.c */
int out_event(struct native *e, const struct element *event, uint64_t offset);
/* A range that is no whole block; where its code goes on. */
int out_piece(struct native *e, const struct element *range, uint64_t leads, uint64_t offset);
int out_range(struct native *e, uint32_t block, bool taken, uint64_t offset);
int out_more_calls(struct native *e);

/* What is settled has been told. -ENOMEM. */
int out_drop(struct native *e);
void out_free(struct native *e);

/* native.c */
/* What is not to be lost any more goes to the sink. */
int native_flush(struct native *e);

/* Of a word: an indirect branch that was taken. */
static inline bool is_indirect(const struct native *e, uint32_t word)
{
	return word & 1 && e->blocks.list[word >> 1].kind == INSTR_IBR;
}

static inline void out_settle(struct native *e)
{
	e->mark = e->out.n;
	e->mark_events = e->out.n_events;
}

/* native-queue.c: what a packet adds and settles. NATIVE_BAD. */
int queue_packet(struct native *e, const struct packet *p);
int queue_info(struct native *e, const struct packet *p);
int queue_end(struct native *e);
void queue_clear(struct native *e);

/* At the end of the queue, as they are. -ENOMEM. */
int queue_put(struct native *e, const struct p0 *list, size_t n);

/* native-flow.c. NATIVE_BAD. */
int flow_atom(struct native *e, bool taken, uint64_t offset);
void flow_address(struct native *e, uint64_t address);
int flow_context(struct native *e, const struct packet_context *c, uint64_t offset);
int flow_time(struct native *e, uint64_t time);
int flow_exception(struct native *e, const struct p0 *p, const struct p0 *address, const struct p0 *context);
int flow_q(struct native *e, const struct p0 *p, uint64_t address);
int flow_source(struct native *e, const struct p0 *p);
void flow_lost(struct native *e);

/* Of a branch with link. */
void flow_call(struct native *e, uint32_t block, uint64_t address);

/* Where an indirect branch went whose target the stream does not tell, if that is what is waited for. NATIVE_BAD. */
int flow_return(struct native *e);

/* Forgets all blocks, which are in nobody's hands then. */
int flow_renew(struct native *e);

/*
 * native-memo.c: entries by key. learn() makes one: 1 where it is not to be remembered what happens, -ENOMEM. NULL: it
 * is not there.
 */
enum { MEMO_TRIED_BITS = 14 };
struct memo {
	struct entry *entries;
	unsigned bits;
	uint32_t misses; /* since it was made or grew */
	uint32_t *tried; /* by hash, the key that was asked for last and not found */
	uint32_t *pool;
	uint32_t n_pool, pool_room;
};

struct memo *memo_new(void);
int memo_clear(struct native *e);
struct memo *memo_free(struct memo *m);
int memo_learn(struct native *e, uint64_t key, struct entry **ret);

static inline uint64_t memo_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

/* Where an entry is, and where it is when another one has taken its place. */
static inline struct entry *memo_slot(const struct memo *m, uint64_t key)
{
	return &m->entries[memo_hash(key) >> (64 - m->bits)];
}

/* Whether it was asked for before, and not too long ago. */
static inline bool memo_tried(struct memo *m, uint64_t key)
{
	uint64_t hash = memo_hash(key);
	uint32_t *tried = &m->tried[hash >> (64 - MEMO_TRIED_BITS)], tag = (uint32_t)(hash >> 8);
	bool before = *tried == tag;

	*tried = tag;
	return before;
}

static inline struct entry *memo_second(const struct memo *m, const struct entry *first)
{
	return &m->entries[(size_t)(first - m->entries) ^ 1];
}

/*
 * native-fold.c: what is left of words. What had to be taken packet by packet is folded when it is settled, so that
 * nothing of it is to be taken back.
 */
struct fold {
	uint32_t last;                 /* the word that ran last; 0: what ran last was no block */
	uint64_t instructions, ranges; /* of NATIVE_CALLS */
	uint64_t leads;                /* where control goes on, when what ran last was no block */
	bool fresh;                    /* nothing ran since an event was told */
	size_t events, kept;           /* that have been folded; words that are only to be told */
	uint32_t *regions; /* two for each block: of its first and its last instruction; 0: not looked up yet */
	uint64_t *counts;  /* by word */
	uint32_t room;     /* blocks */
	struct native_count *edges; /* a hash, by word and target */
	size_t n_edges, edges_room;
};

struct fold *fold_new(void);
struct fold *fold_free(struct fold *f);

/* The settled words. -ENOMEM. */
int fold_words(struct native *e);

/* In a region: control comes from there, or to there, in a way that is always told. */
#define FOLD_ALWAYS (1u << 31)

/* A call, or a return of any kind. */
static inline bool fold_told(const struct block *b, bool taken)
{
	return taken && (b->sub == SUB_LINK || b->sub == SUB_RET || b->sub == SUB_ERET);
}

/* In place of a word's region: it is told where control came to; and so it is, as torn. No region has these. */
#define FOLD_FRESH UINT32_MAX
#define FOLD_TORN (UINT32_MAX - 1)

/* A word's region when control left it, to be compared with the entry's of what comes next. */
uint32_t fold_left(struct native *e, uint32_t word);

/* Control that is there was expected elsewhere; last: the word that ran last, or 0. */
bool fold_torn(const struct native *e, uint32_t last, uint64_t address);

/* An indirect branch went there. -ENOMEM. */
int fold_edge(struct native *e, uint32_t word, uint32_t to);

/* An entry of NATIVE_CALLS: words become those of calls. -ENOMEM. */
int fold_entry(struct native *e, struct entry *to, uint32_t *words, unsigned *n_words);

/* An entry of NATIVE_COUNTS goes: what it counted is kept. -ENOMEM. */
int fold_count(struct native *e, const struct entry *entry);

/* What was counted goes to the sink; before blocks are forgotten, too. */
int fold_finish(struct native *e);

/* Blocks have been forgotten; this one ran last, if any did. -ENOMEM. */
int fold_renew(struct native *e, const struct block *last);

/*
 * native-fast.c. Takes packets as long as they are of the common kinds and nothing is held back: how many bytes that
 * was goes to *ret_used. NATIVE_BAD, of the last of them; negative errno, also of the sink.
 */
int fast_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset, size_t *ret_used);

#endif
