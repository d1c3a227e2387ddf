/* SPDX-License-Identifier: MIT */
/*
 * Reads a perf.data while it is written, in order (struct pd_session, live). The bytes may be hostile, and come in
 * pieces of any size. What they describe is passed on at once, in its order, and nothing of it is kept but the
 * metadata.
 */
#ifndef CSIGHT_PERFDATA_LIVE_H
#define CSIGHT_PERFDATA_LIVE_H

#include "lib/perfdata/read.h"

/* A negative return ends the reading; pd_live_push() returns it. Pointers are valid during the call only. */
struct pd_live_sink {
	int (*map)(void *user, const struct pd_map *m);
	int (*exit)(void *user, const struct pd_task *t); /* a thread, or a process, has ended */
	/* A slice of a buffer begins: bytes() and end() follow; neither does with PD_AUX_GAP: all of it is lost. */
	int (*slice)(void *user, const struct pd_piece *p);
	int (*bytes)(void *user, const void *data, size_t size);
	int (*end)(void *user); /* of the slice */
	void *user;
};

struct pd_live;

int pd_live_new(const struct pd_live_sink *sink, struct pd_live **ret);

/* Reads the next bytes. -EBADMSG: they are no such recording; pd_live_problem() has the reason. -ENOMEM. */
int pd_live_push(struct pd_live *l, const void *data, size_t size);

/* Returns true if the last record that was pushed is complete. */
bool pd_live_whole(const struct pd_live *l);

/* Returns the metadata and the clock, which are known before the first call of the sink; all else is empty. */
const struct pd_contents *pd_live_contents(const struct pd_live *l);
struct pd_problem pd_live_problem(const struct pd_live *l);
struct pd_live *pd_live_free(struct pd_live *l);

#endif
