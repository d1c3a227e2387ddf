/* SPDX-License-Identifier: MIT */
/*
 * State of an AUX buffer, folded from its records: which AUX slices it holds, of which threads, when they were written,
 * and what failed. Slices that have been overwritten are dropped, so memory is bounded. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_AUX_BUFFER_H
#define CSIGHT_DAEMON_CAPTURE_AUX_BUFFER_H

#include "daemon/capture/capture.h"
#include "daemon/capture/perf/replay-log.h"
#include "daemon/capture/perf/perf-event.h"
#include "daemon/capture/perf/run-watch.h"
#include "daemon/capture/perf/thread-table.h"

enum { AUX_SLICES_MAX = 1 << 18, AUX_OUTAGES_MAX = 16 };

/* The kernel refused the sink to the event of a CPU: nothing was traced there. to: UINT64_MAX until tracing starts. */
struct aux_outage {
	uint64_t from, to; /* ns */
};

struct aux_slice {
	uint64_t from, to; /* positions among all bytes ever written: [from, to) */
	uint64_t flags;
	uint64_t begun, ended; /* ns; begun: 0 if no record says so */
	uint32_t pid, tid;     /* that ran at its end */
	uint32_t started;      /* thread that ran when it began, if `begun` is set */
};

struct aux_buffer {
	uint32_t cpu;
	int fd;                       /* the mapped event */
	struct thread_table *threads; /* where switches of threads are recorded, or NULL */
	struct replay_log *log;       /* the replay log of the records, or NULL */
	uint32_t number;              /* of this ring in the replay log */
	uint64_t replayed;            /* position in the ring up to which the replay log has its records */
	struct run_watch watch;
	struct perf_ring ring;
	uint64_t size;            /* of the buffer, bytes */
	bool fills;               /* the sink stops where the buffer is full */
	uint64_t full_at;         /* when it did, ns; 0: not yet */
	bool ended;               /* by aux_end() */
	struct aux_slice *slices; /* oldest first, starting at index first */
	size_t first, n_slices, room;
	uint64_t end;        /* of the newest slice */
	uint64_t stopped_at; /* position when tracing was last stopped */
	bool stopping;       /* the record of that stop has not been read */
	bool paused;         /* threads run untraced, as they should */
	bool cut_off;        /* no record describes the bytes before that position */
	bool has_id;
	uint8_t trace_id;
	/* Since the event was opened: */
	uint64_t lost;           /* lost records */
	uint64_t starts, traces; /* starts of tracing; slices that held trace */
	uint64_t collisions;     /* slices in which the sink's buffer wrapped: a gap is possible */
	uint64_t refused;        /* when the sink was last unavailable, ns; 0: never */
	struct aux_outage outages[AUX_OUTAGES_MAX];
	unsigned n_outages;
	/* Cleared by the user: */
	bool failed;           /* tracing did not start, or stopped: the event must be enabled again */
	uint64_t failed_since; /* ns */
	bool untraced;         /* a thread ran untraced, and no other record says why */
	uint64_t untraced_since;
	bool strange;           /* a record was invalid */
	uint32_t started_tid;   /* thread that was running when tracing last started */
	uint64_t started_empty; /* starts since the last slice that held trace */
	uint64_t begun;
	uint64_t newest; /* time of the last record, ns */
};

void aux_init(struct aux_buffer *a, uint32_t cpu, uint64_t size, uint8_t trace_id);
void aux_done(struct aux_buffer *a);

/* Nothing that began after that time is in the buffer, or comes to it. */
void aux_end(struct aux_buffer *a, uint64_t time);

/* Adds one record of the data ring. */
void aux_fold(struct aux_buffer *a, const struct perf_record *r);

/* Tracing did not start, or stopped, at that time. */
void aux_note_failure(struct aux_buffer *a, uint64_t since);

/* Records of the data ring were lost behind the newest one that was added. */
void aux_note_lost(struct aux_buffer *a, uint64_t n);

/* Adds consecutive records of the data ring. */
void aux_fold_all(struct aux_buffer *a, const uint8_t *records, size_t size);

/* Adds all records of the data ring. Clears scratch. */
void aux_drain(struct aux_buffer *a, struct buf *scratch);

/* Returns the number of available bytes; ret_from: the position of the first. */
uint64_t aux_held(const struct aux_buffer *a, uint64_t *ret_from);

/* Returns the number of bytes in the slices that ended at that time or later. */
uint64_t aux_newer(const struct aux_buffer *a, uint64_t since);

/*
 * Copies the newest limit bytes and their slices. Returns 0 with size 0 and no memory if the buffer is empty; -ENOMEM.
 * If the sink writes meanwhile, aux_cut() must follow.
 */
int aux_copy(const struct aux_buffer *a, uint64_t limit, struct capture_ring *ret);

/*
 * Copies the bytes [from, to), which are in the buffer, with their slices, for a recording. continues: the last copy
 * ended at from. The end of a slice whose beginning was in that copy continues it; if that is lost, it is partial.
 */
int aux_copy_between(const struct aux_buffer *a, uint64_t from, uint64_t to, bool continues, struct capture_ring *ret);

/* Returns the slice that the byte at this position, which is in the buffer, is in; NULL: no record describes it. */
const struct aux_slice *aux_slice_at(const struct aux_buffer *a, uint64_t position);

/* Returns the time at which the oldest slice ended; UINT64_MAX: there is none. */
uint64_t aux_oldest(const struct aux_buffer *a);

/* Returns the index of the first slice that ends behind a position. */
size_t aux_first_behind(const struct aux_buffer *a, uint64_t position);

/*
 * Removes from a copy what the sink may have overwritten while it was made: head is the position up to which it wrote.
 */
void aux_cut(struct capture_ring *ring, uint64_t aux_size, uint64_t head);

#endif
