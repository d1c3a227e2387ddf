/*
 * A part of a source's bytes, from a synchronisation packet on, decoded before anybody knows in which state the engine
 * is there: what the part itself does not tell is left open until it does. At some places the whole state is kept;
 * whoever comes to one of them in the same state, whatever is still open aside, goes on behind the stretch that begins
 * there, as what the stretch gave is what it would have given itself. Nothing else of a part is of use.
 *
 * Open is also what a return takes from a return stack that was filled before. Control is lost there, up to the next
 * address, and one stretch ends where the packet began that needed it.
 */
#ifndef CSIGHT_ETM_NATIVE_CHUNK_H
#define CSIGHT_ETM_NATIVE_CHUNK_H

#include "lib/base/buf.h"
#include "lib/etm/native-state.h"

enum { PLACE_QUEUE = 32 };

/* The whole state of an engine between two packets, in nobody's numbers. */
struct native_checkpoint {
	/* Packets: */
	uint64_t history[3], timestamp;
	uint32_t threshold;
	bool wide, timed, informed;
	/* The stream: */
	struct engine_context context;
	struct element told;
	enum native_sync sync;
	enum element_reason lost;
	bool overflow, timestamps, counted;
	uint64_t offset, bytes, decoded;
	uint32_t n_queue;
	int64_t depth;
	bool pending;
	/* Control: */
	bool has_context, stack_waits;
	enum native_need need;
	uint64_t address;
	uint8_t n_stack;
	struct {
		uint64_t address;
		uint8_t open;  /* 1: what was on top of the stack at the beginning; 2: below that */
	} stack[RETURN_STACK]; /* the newest first */
	/* What is folded: */
	struct basic_block last;
	bool has_last, last_taken, fresh;
	uint64_t successor, instructions, ranges;
	struct p0 queue[PLACE_QUEUE]; /* what is held back */
};

/* False: it cannot be told, as what has been read is not settled. */
bool native_checkpoint_take(struct native *e, struct native_checkpoint *ret);

/* Whether an engine at here is at that place of a part, what is open there aside. */
bool native_checkpoint_same(const struct native_checkpoint *here, const struct native_checkpoint *there);

/* An engine of the same source is at the place then, with nothing left to be told. -ENOMEM. */
int native_checkpoint_restore(struct native *e, const struct native_checkpoint *place);

/* Memory for what batches point to: calls, events, edges. */
struct native_buffer {
	struct native_buffer *next;
	size_t edges, calls, events, size; /* of which there is capacity; bytes */
	uint64_t memory[];
};

/* The engine goes to the part's next capacity, with what it has not told yet. -ENOMEM. */
int native_batch_next_buffer(struct native *e);
void native_batch_leave(struct native *e);
void native_batch_buffers_free(struct native_buffer *r);

struct chunk_checkpoint {
	size_t at;    /* in the part */
	size_t batch; /* of those that follow it, the first */
	bool ends;    /* a stretch; else one may begin here */
	bool counted; /* of NATIVE_COUNTS: so is what follows, up to where the stretch ends: */
	size_t stop;
	struct native_checkpoint place;
};

struct native_chunk {
	struct buf marks, batches;     /* struct chunk_checkpoint, struct native_batch */
	struct native_buffer *buffers; /* what batches point to, but for blocks */
	struct native_buffer *spare;   /* that may become such */
	size_t kept;                   /* bytes in buffers */
	uint64_t begin;                /* in the source's bytes */
	bool cold;                     /* no trace info yet */
	bool slow;                     /* for now each packet is taken by itself, and nothing is counted */
	bool again;                    /* nothing is kept, but counts */
	bool stretch;                  /* one has begun */
	bool broken;                   /* control was lost */
	unsigned n;                    /* marks of the stretch */
	uint64_t next;                 /* where the next mark may be */
	bool has_before;
	struct native_checkpoint before; /* the packet at hand */
	size_t before_edges, before_events, before_batches;
};

/* Decodes it; the engine is at an end then. Errors are the part's end; -ENOMEM: what was counted is not right. */
int native_chunk_decode(struct native *e, struct native_chunk *p, const uint8_t *bytes, size_t size, uint64_t begin);
void native_chunk_done(struct native_chunk *p);

/*
 * Counts are the engine's, of all its parts. What was counted in vain, from a mark on, an engine that does nothing else
 * counts once more. -ENOMEM.
 */
int native_chunk_recount(struct native *e, const struct native_checkpoint *from, const uint8_t *bytes, size_t size);

/* The engine's, which has its part: about each packet that is taken by itself. */
int native_chunk_before(struct native *e, uint64_t at);
int native_chunk_after(struct native *e, uint64_t next);
int native_chunk_info(struct native *e, const struct packet *p);

/* The batch, whose memory stays, is kept in the part that user points to a pointer to. */
int native_chunk_batch(void *user, const struct native_batch *batch);

#endif
