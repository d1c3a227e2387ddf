/* What one stream's engine gave and nobody has taken yet: elements, in units whose owner and time can be told. */
#ifndef CSIGHT_DECODE_QUEUE_H
#define CSIGHT_DECODE_QUEUE_H

#include "daemon/decode/lane.h"
#include "lib/base/buf.h"

/* What lies between two timestamps, within one stretch. Times are those of timestamps, as far as they can be compared.
 */
struct unit {
	uint32_t n; /* elements */
	bool first; /* it begins a stretch */
	bool has_tid;
	uint32_t tid;    /* its context ID */
	uint64_t lo, hi; /* no earlier, no later */
	bool has_at;
	uint64_t at; /* the stretch goes on at that time */
	bool gap;    /* trace was lost just before it, and somebody else was told */
	uint8_t gap_reason;
	bool code; /* something ran in it */
	bool late; /* its piece could not be decoded from its beginning on */
	const struct pd_piece *piece;
};

struct queue {
	struct source *source;
	struct lane *lane;
	const struct stream *stream;
	bool stamped; /* timestamps are to be expected */
	bool ended;   /* nothing more comes */
	struct buf elements, units;
	size_t element, unit; /* the first of each that nobody has taken */
	size_t waits;         /* the first unit for which no later time is known yet */
	/* The stream, where it is: */
	struct unit now; /* the unit that grows */
	bool between;    /* control is where threads may change */
	bool has_tid;
	uint32_t tid;
	uint64_t lo;
	const struct pd_piece *piece;
	bool begins;                  /* nothing of the piece has run yet */
	uint64_t piece_end, last_end; /* times */
};

int queue_open(struct source *source, const struct stream *s, struct queue **ret);

/* The first unit, with what bounds it; NULL: the stream has ended. */
int queue_head(struct queue *q, const struct unit **ret);

/* The elements of the first unit. */
const struct element *queue_elements(const struct queue *q);

/* The first unit is taken. */
void queue_take(struct queue *q);
struct queue *queue_close(struct queue *q);

#endif
