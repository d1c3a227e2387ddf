/* SPDX-License-Identifier: MIT */
/* What demux.c, demux-place.c and demux-loss.c share: the streams that are read, and the threads that are written. */
#ifndef CSIGHT_DECODE_DEMUX_STATE_H
#define CSIGHT_DECODE_DEMUX_STATE_H

#include <sys/queue.h>

#include "daemon/decode/demux.h"
#include "daemon/decode/element-queue.h"
#include "lib/base/hash.h"

/* An output stream: a thread, or the unattributed execution of a CPU. */
struct track {
	struct stream stream;
	struct decode_stats stats;
	const struct pd_piece *piece; /* of the last stretch; NULL: none yet */
	struct pd_piece before;       /* if that was in an earlier round, *piece: without what has been settled */
	const struct feed *feed;      /* of the last stretch; NULL: of an earlier round */
	uint64_t since;               /* of the last stretch: it began no earlier */
	uint64_t latest;              /* the same, also after the round */
	uint64_t unseen;              /* up to this time, it may have executed what is not in the track */
	bool in_kernel;               /* the last range was there */
	bool after_exception;         /* no instruction has been executed since the last exception */
	bool stopped; /* the trace stopped while the thread was in the kernel, and began in another one */
	bool gap;     /* elements have been left out since the last stretch, for this reason: */
	enum element_reason why;
	bool again; /* the thread had an earlier track, which end_oldest() ended */
	bool ended;
	TAILQ_ENTRY(track) link; /* in struct demux.open */
};

/*
 * Threads that have stretches without a time between two timestamps of a feed. What such a thread executed on another
 * CPU in that time may precede or follow them.
 */
struct timeless {
	uint64_t lo, hi;
	bool loose;         /* the order of all of them is uncertain */
	struct buf threads; /* of struct timeless_thread, by thread */
};

struct timeless_thread {
	uint32_t tid;
	bool ambiguous; /* it has executed something elsewhere, or may have */
};

/* A stream, and the stretch at its head. */
struct feed {
	struct element_queue *queue;
	const struct stream *stream;
	struct track *cpu_track; /* for stretches without a thread; NULL: none yet */
	struct track *track;     /* of the current stretch; NULL: it is not emitted */
	uint32_t tid;
	bool has_tid;
	const struct pd_piece *piece; /* of the stretch at the head */
	bool placed;                  /* thread and time of that stretch are set: */
	uint64_t time, order;
	uint64_t since;              /* lower bound of the time; for slices the same */
	bool unordered;              /* its order among stretches of its thread is uncertain */
	bool certain;                /* its thread is known, and its order, or records do not show any order */
	uint64_t left;               /* time at which its thread left the CPU; 0: unknown */
	uint64_t after;              /* no later stretch begins before this time */
	struct schedule_run unknown; /* the last stretch that was left out, and its bounds; tid UINT32_MAX: unknown */
	struct track *last;          /* of the preceding stretch; NULL: it was not emitted */
	uint64_t read;               /* bytes of the stream that bytes_done includes */
	struct timeless timeless;    /* the last such interval, where no records give an order */
};

/* An event that is off since an earlier round, of a thread on a CPU: until its next slice there, if there is one. */
struct open_loss {
	uint32_t tid, cpu;
	uint64_t until; /* UINT64_MAX: it is off in all of this round */
};

struct demux {
	struct input *input; /* of the round */
	bool follows;        /* there may be several rounds */
	uint64_t rounds;     /* number of those that have ended */
	bool by_records;     /* records of switches order what was executed */
	struct outputs *outputs;
	struct decode_stats *stats;
	struct feed *feeds;
	size_t n_feeds;
	struct track **tracks;
	uint32_t n_tracks;
	uint32_t n_streams;       /* all tracks that there ever were */
	struct hash threads;      /* by thread ID: index of the last track of the thread */
	TAILQ_HEAD(, track) open; /* open tracks of threads; the one that ran last is at the end */
	uint32_t n_open;
	const struct track *at; /* the track of the last outputs_begin() */
	/*
	 * Before this time, trace of some CPU is lost that no record reports: AUX slices of a wrapped ring buffer, or
	 * what cannot be decoded of a buffer that several threads share. Any thread may have run there.
	 */
	uint64_t whole_since;
	uint64_t fails_since; /* time at which the first event of a thread failed */
	struct hash ends;     /* by CPU: where its trace of the rounds before ended, modulo 2^32 */
	struct buf off;       /* of struct open_loss */
	uint64_t unordered;   /* number of stretches whose order is uncertain */
	uint64_t left_out;    /* stretches of threads beyond TRACKS_MAX */
	uint64_t bytes_done, bytes_total;
};

/* True if the thread of a stretch is the one that the AUX record of its slice names. */
static inline bool demux_is_slice(const struct feed *f)
{
	return f->stream->of_threads && !f->stream->by_context && !f->stream->by_switches;
}

#endif
