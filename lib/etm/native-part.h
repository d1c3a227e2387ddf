/*
 * A part of a source's bytes, from a synchronisation packet on, decoded before anybody knows in which state the engine
 * is there: what the part itself does not tell is left open until it does. At some places the whole state is kept;
 * whoever comes to one of them in the same state, whatever is still open aside, goes on behind the stretch that begins
 * there, as what the stretch gave is what it would have given itself. Nothing else of a part is of use.
 *
 * Open is also what a return takes from a return stack that was filled before. Control is lost there, up to the next
 * address, and one stretch ends where the packet began that needed it.
 */
#ifndef CSIGHT_ETM_NATIVE_PART_H
#define CSIGHT_ETM_NATIVE_PART_H

#include "lib/base/buf.h"
#include "lib/etm/native-state.h"

enum { PLACE_QUEUE = 32 };

/* The whole state of an engine between two packets, in nobody's numbers. */
struct native_place {
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
	struct block last;
	bool has_last, last_taken, fresh;
	uint64_t leads, instructions, ranges;
	struct p0 queue[PLACE_QUEUE]; /* what is held back */
};

/* False: it cannot be told, as what has been read is not settled. */
bool native_place_take(struct native *e, struct native_place *ret);

/* Whether an engine at here is at that place of a part, what is open there aside. */
bool native_place_same(const struct native_place *here, const struct native_place *there);

/* An engine of the same source is at the place then, with nothing left to be told. -ENOMEM. */
int native_place_put(struct native *e, const struct native_place *place);

/* Memory for what batches point to: calls, events, words. */
struct out_room {
	struct out_room *next;
	size_t words, calls, events, size; /* of which there is room; bytes */
	uint64_t memory[];
};

/* The engine goes to the part's next room, with what it has not told yet. -ENOMEM. */
int out_next_room(struct native *e);
void out_leave(struct native *e);
void out_rooms_free(struct out_room *r);

struct part_mark {
	size_t at;    /* in the part */
	size_t batch; /* of those that follow it, the first */
	bool ends;    /* a stretch; else one may begin here */
	bool counted; /* of NATIVE_COUNTS: so is what follows, up to where the stretch ends: */
	size_t stop;
	struct native_place place;
};

struct native_part {
	struct buf marks, batches; /* struct part_mark, struct native_batch */
	struct out_room *rooms;    /* what batches point to, but for blocks */
	struct out_room *spare;    /* that may become such */
	size_t kept;               /* bytes in rooms */
	uint64_t begin;            /* in the source's bytes */
	bool cold;                 /* no trace info yet */
	bool slow;                 /* for now each packet is taken by itself, and nothing is counted */
	bool again;                /* nothing is kept, but counts */
	bool stretch;              /* one has begun */
	bool broken;               /* control was lost */
	unsigned n;                /* marks of the stretch */
	uint64_t next;             /* where the next mark may be */
	bool has_before;
	struct native_place before; /* the packet at hand */
	size_t before_words, before_events, before_batches;
};

/* Decodes it; the engine is at an end then. Errors are the part's end; -ENOMEM: what was counted is not right. */
int native_part_decode(struct native *e, struct native_part *p, const uint8_t *bytes, size_t size, uint64_t begin);
void native_part_done(struct native_part *p);

/*
 * Counts are the engine's, of all its parts. What was counted in vain, from a mark on, an engine that does nothing else
 * counts once more. -ENOMEM.
 */
int native_part_again(struct native *e, const struct native_place *from, const uint8_t *bytes, size_t size);

/* The engine's, which has its part: about each packet that is taken by itself. */
int part_before(struct native *e, uint64_t at);
int part_after(struct native *e, uint64_t next);
int part_info(struct native *e, const struct packet *p);

/* The batch, whose memory stays, is kept in the part that user points to a pointer to. */
int part_batch(void *user, const struct native_batch *batch);

#endif
