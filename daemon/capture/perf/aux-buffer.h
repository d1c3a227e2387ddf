/*
 * An AUX buffer and the records beside it, folded: which slices of trace it holds, whose, when, and what failed. Slices
 * that the buffer has overwritten are forgotten, so it does not grow however long it is used. On the capture lane.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_AUX_BUFFER_H
#define CSIGHT_DAEMON_CAPTURE_AUX_BUFFER_H

#include "daemon/capture/capture.h"
#include "daemon/capture/perf/perf-event.h"

enum { AUX_SLICES_MAX = 1 << 18 };

struct aux_slice {
	uint64_t from, to; /* bytes [from, to) of all that were ever written */
	uint64_t flags;
	uint64_t begun, ended; /* ns; begun: 0 where no record told */
	uint32_t pid, tid;
};

struct aux_buffer {
	uint32_t cpu;
	int fd; /* of the event that is mapped */
	struct perf_ring ring;
	uint64_t size;            /* of the buffer */
	struct aux_slice *slices; /* oldest first, from first on */
	size_t first, n_slices, room;
	uint64_t end; /* of the newest slice */
	bool has_id;
	uint8_t trace_id;
	/* since the event was opened */
	uint64_t lost;           /* records */
	uint64_t starts, traces; /* times that tracing began, slices that held something */
	uint64_t collisions;     /* slices in which the sink's buffer wrapped: a gap is possible */
	uint64_t refused;        /* when the sink last could not be had; 0: never */
	/* since aux_checked() */
	bool failed;            /* it did not start, or stopped: it must be enabled anew */
	bool strange;           /* a record made no sense */
	uint32_t started_tid;   /* who ran when tracing last began */
	uint64_t started_empty; /* times that it began since a slice held something */
	uint64_t begun;
};

void aux_init(struct aux_buffer *a, uint32_t cpu, uint64_t size, uint8_t trace_id);
void aux_done(struct aux_buffer *a);

/* One record of its data ring. */
void aux_fold(struct aux_buffer *a, const struct perf_record *r);

/* All of them; scratch is emptied. */
void aux_drain(struct aux_buffer *a, struct buf *scratch);

/* Bytes that are there; from: the first. */
uint64_t aux_held(const struct aux_buffer *a, uint64_t *ret_from);

/*
 * The newest limit bytes and their slices. -ENOMEM; memory stays untouched where nothing is there (0, size 0). The
 * buffer is not to be written to meanwhile, or aux_cut() follows.
 */
int aux_copy(const struct aux_buffer *a, uint64_t limit, struct capture_ring *ret);

/* What was written up to head may have destroyed the beginning while it was copied. */
void aux_cut(struct capture_ring *ring, uint64_t aux_size, uint64_t head);

#endif
