/* SPDX-License-Identifier: MIT */
/*
 * Queues the elements of one stream until the thread that executed them and their time are known. Elements are grouped
 * in units: what lies between two timestamps, within one stretch (demux.h).
 */
#ifndef CSIGHT_DECODE_ELEMENT_QUEUE_H
#define CSIGHT_DECODE_ELEMENT_QUEUE_H

#include "daemon/decode/stream-decoder.h"
#include "lib/base/buf.h"

/* Times are input_time() of timestamps: ns on the records' clock if the input has_clock, else only comparable. */
struct element_unit {
	uint32_t n;   /* number of elements; 0: nothing in the piece could be decoded, or: */
	bool lost;    /* trace was lost, of any thread that ran within the bounds */
	bool first;   /* the first unit of its stretch */
	bool has_tid; /* the context ID is known: */
	uint32_t tid;
	uint64_t lo, hi; /* bounds of the execution time */
	bool loose;      /* hi is that of the piece, though timestamps may follow */
	bool has_at;     /* a time at which the stretch was running: */
	uint64_t at;
	bool gap; /* trace was lost just before the unit, which has no no-sync element for it: */
	uint8_t gap_reason;
	bool code;      /* instructions were executed */
	bool in_kernel; /* the stretch has executed code of the kernel */
	bool late;      /* the beginning of the piece could not be decoded */
	const struct pd_piece *piece;
};

struct element_queue {
	struct input *input;
	struct stream_decoder *decoder;
	const struct stream *stream;
	bool stamped; /* wait for timestamps: the stream is expected to have them */
	bool ended;   /* all elements of the stream are queued */
	struct buf elements, units;
	size_t element, unit; /* heads of the two queues */
	size_t waits;         /* first unit whose upper time bound is not final */
	uint32_t unbound;     /* elements since the last bound that is final */
	/* State of the decoder at the end of the queue: */
	struct element_unit now; /* the incomplete unit */
	bool between;            /* the CPU may switch threads here */
	bool has_tid;
	uint32_t tid;
	uint64_t lo;
	const struct pd_piece *piece;
	bool begins;                  /* no instruction of the piece has been executed yet */
	uint64_t piece_end, last_end; /* end times of the current and the preceding piece */
};

/* Creates a queue for the elements of a stream. workers: as in stream_decoder_open(). */
int element_queue_open(struct input *input, const struct stream *s, unsigned workers, struct element_queue **ret);

/* Decodes until the time bounds of the first unit are final. *ret is that unit, or NULL at the end of the stream. */
int element_queue_head(struct element_queue *q, const struct element_unit **ret);

/* Returns the elements of the first unit. */
const struct element *element_queue_elements(const struct element_queue *q);

/* Returns all units that are queued. */
const struct element_unit *element_queue_units(const struct element_queue *q, size_t *ret_n);

/* Removes the first unit. */
void element_queue_pop(struct element_queue *q);
struct element_queue *element_queue_close(struct element_queue *q);

#endif
