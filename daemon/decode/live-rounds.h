/* SPDX-License-Identifier: MIT */
/*
 * The trace of CPUs in a recording that is followed. It comes in rounds, each with the trace of all CPUs up to some
 * time, and is kept in a file in memory until its round is complete: as an input of its own, with what the rounds
 * before say of the threads that run. Threads and their calls go on from one round to the next.
 */
#ifndef CSIGHT_DECODE_LIVE_ROUNDS_H
#define CSIGHT_DECODE_LIVE_ROUNDS_H

#include "daemon/decode/outputs.h"
#include "daemon/decode/decode-stats.h"
#include "lib/perfdata/live.h"

/* Borrowed. */
struct live_rounds_options {
	struct input *live; /* its job, images and warnings; the images are sealed when a round ends */
	const struct element_regions *regions;
	struct outputs *outputs;
	struct decode_stats *stats;
	/* May be NULL: the input of a round is open, until the next call with NULL; its elements have been emitted. */
	void (*opened)(void *user, struct input *round);
	int (*decoded)(void *user, uint64_t until);
	void *user;
};

struct live_rounds;

int live_rounds_new(const struct live_rounds_options *options, struct live_rounds **ret);

/* Adds bytes of the recording, as pd_live_sink.raw() has them. */
int live_rounds_add(struct live_rounds *r, const struct pd_live_raw *raw);

/* A thread has ended: nothing of it follows this round. */
int live_rounds_add_exit(struct live_rounds *r, const struct pd_task *task);

/* Decodes the round, the trace up to a time. pid: of the mappings; UINT32_MAX: unknown. */
int live_rounds_end(struct live_rounds *r, uint64_t until, uint32_t pid);

/* Ends all threads, whose calls that are open are left. */
int live_rounds_finish(struct live_rounds *r);
struct live_rounds *live_rounds_free(struct live_rounds *r);

#endif
