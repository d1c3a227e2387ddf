/* SPDX-License-Identifier: MIT */
/* How the traced process ended, from snapshot.json, and where, from the calls of the thread in which it did. */
#ifndef CSIGHT_DECODE_OUTPUT_ENDING_H
#define CSIGHT_DECODE_OUTPUT_ENDING_H

#include "daemon/decode/job.h"
#include "daemon/decode/place.h"
#include "daemon/decode/stream.h"
#include "lib/store/store.h"

/* Why a place is believed to be that of the process's end, from weak to strong. */
enum place_certainty {
	PLACE_NONE,
	PLACE_ONLY_THREAD, /* if no other follows */
	PLACE_FAULT,       /* the thread's trace ends in a fault */
	PLACE_THREAD,      /* the snapshot names the thread */
};

struct output_ending {
	json_object *about; /* NULL: the process ran */
	struct ending how;  /* unknown: only that it ended */
	uint32_t pid;
	enum place_certainty certainty;
	struct place place;
	uint32_t tid; /* of that place */
	uint64_t n_streams;
};

void output_ending_begin(struct output_ending *e, const struct decode_job *job);
void output_ending_done(struct output_ending *e);

/* True for an exception by which hardware reports a fault. */
bool output_ending_is_fault(const struct element *e);

/* Considers a thread at the end of its trace, before calls_end(). regions must live until output_ending_finish(). */
void output_ending_thread(struct output_ending *e, const struct stream *s, struct region_map *regions,
			  const struct calls *calls, bool faulted);

/* Completes e->about, and records it in the store. */
void output_ending_finish(struct output_ending *e, struct store_writer *w);

#endif
