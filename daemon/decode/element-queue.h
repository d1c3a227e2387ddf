/* What one stream's engine gave and nobody has taken yet: elements, in units whose owner and time can be told. */
#ifndef CSIGHT_DECODE_ELEMENT_QUEUE_H
#define CSIGHT_DECODE_ELEMENT_QUEUE_H

#include "daemon/decode/stream-decoder.h"
#include "lib/base/buf.h"

/* What lies between two timestamps, within one stretch. Times are those of timestamps, as far as they can be compared.
 */
struct element_unit {
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

struct element_queue {
	struct input *input;
	struct stream_decoder *decoder;
	const struct stream *stream;
	bool stamped; /* timestamps are to be expected */
	bool ended;   /* nothing more comes */
	struct buf elements, units;
	size_t element, unit; /* the first of each that nobody has taken */
	size_t waits;         /* the first unit for which no later time is known yet */
	/* The stream, where it is: */
	struct element_unit now; /* the unit that grows */
	bool between;            /* control is where threads may change */
	bool has_tid;
	uint32_t tid;
	uint64_t lo;
	const struct pd_piece *piece;
	bool begins;                  /* nothing of the piece has run yet */
	uint64_t piece_end, last_end; /* times */
};

int element_queue_open(struct input *input, const struct stream *s, unsigned workers, struct element_queue **ret);

/* The first unit, with what bounds it; NULL: the stream has ended. */
int element_queue_head(struct element_queue *q, const struct element_unit **ret);

/* The elements of the first unit. */
const struct element *element_queue_elements(const struct element_queue *q);

/* The first unit is taken. */
void element_queue_pop(struct element_queue *q);
struct element_queue *element_queue_close(struct element_queue *q);

#endif
