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
	uint8_t level; /* instrumentation; exception: it is a reset */
	uint32_t number; /* exception, Q, transaction, unseen; atoms: their pattern */
	uint32_t cycles;
	uint64_t value; /* address, timestamp, event, instrumentation */
	uint64_t offset;
	struct packet_context context;
};

struct native_out {
	uint32_t *words;
	uint64_t *offsets;
	struct element *events;
	uint64_t *leads;
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
	int error;		  /* it takes nothing more */

	uint8_t carry[PACKET_MAX]; /* the head of a packet that goes on in bytes to come */
	size_t n_carry;
	unsigned zeros; /* in front of a synchronisation packet that is looked for */
	bool framed;	/* packets follow each other */
	bool counted;	/* they count as understood */

	enum native_sync sync;
	enum element_reason lost; /* why */
	bool overflow;		  /* was the last thing before what is lost */
	bool timestamps;	  /* are to be told of: not before the first marker where there are some */
	uint64_t offset;	  /* of the packet at hand */

	struct p0 *queue; /* held back: a ring */
	size_t first, n_queue, queue_room;
	uint32_t depth; /* P0 elements in it */
	bool pending;	/* the newest P0 element counts from its address on */

	bool has_context;
	enum native_need need;
	uint32_t block;	  /* where control is, or 0: at the address */
	uint64_t address; /* where control is when block is 0; behind the branch when its target is needed */
	struct element told; /* the context, as told last */
	bool return_stack;
	bool stack_waits; /* for the first address after trace info */
	uint8_t top, entries;
	struct {
		uint32_t block; /* that called; 0: the address is that to return to */
		uint64_t address;
	} stack[RETURN_STACK];
	bool ete;
};

/* native.c */
int out_event(struct native *e, const struct element *event, uint64_t offset);
/* A range that is no whole block; where its code goes on. */
int out_piece(struct native *e, const struct element *range, uint64_t leads, uint64_t offset);
int out_range(struct native *e, uint32_t block, bool taken, uint64_t offset);
/* What is not to be lost any more goes to the sink. */
int native_flush(struct native *e);

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

/* native-fast.c */
struct memo *memo_new(void);
void memo_clear(struct memo *m);
struct memo *memo_free(struct memo *m);

/*
 * Takes packets as long as they are of the common kinds and nothing is held back: how many bytes that was goes to *ret_used.
 * NATIVE_BAD, of the last of them; negative errno, also of the sink.
 */
int fast_packets(struct native *e, const uint8_t *bytes, size_t n, uint64_t offset, size_t *ret_used);

#endif
