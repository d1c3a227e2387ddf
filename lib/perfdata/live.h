/* SPDX-License-Identifier: MIT */
/*
 * Reads a perf.data while it is written, in order (struct pd_session, live). The bytes may be hostile, and come in
 * pieces of any size. What they describe is passed on at once, in its order, and nothing of it is kept but the
 * metadata. The trace of threads is passed on slice by slice; that of CPUs, which must be decoded together, as the
 * bytes of the recording.
 */
#ifndef CSIGHT_PERFDATA_LIVE_H
#define CSIGHT_PERFDATA_LIVE_H

#include "lib/perfdata/read.h"

enum pd_live_part {
	PD_LIVE_HEAD,   /* what all of the recording needs: header, metadata, clock */
	PD_LIVE_RECORD, /* a whole record */
	PD_LIVE_TRACE,  /* of a CPU, behind its record */
};

struct pd_live_raw {
	enum pd_live_part part;
	const void *data;
	size_t size;
	const struct pd_run *run;      /* of a record about the thread that runs; else NULL */
	const struct pd_origin *empty; /* of an AUX record without trace; else NULL */
};

/* A negative return ends the reading; pd_live_push() returns it. Pointers are valid during the call only. */
struct pd_live_sink {
	int (*map)(void *user, const struct pd_map *m);
	int (*exit)(void *user, const struct pd_task *t);      /* a thread, or a process, has ended */
	int (*raw)(void *user, const struct pd_live_raw *raw); /* all of the recording, but the trace of threads */
	int (*round)(void *user, uint64_t time); /* the trace of all CPUs up to this time has been passed on */
	/*
	 * A slice of a thread's buffer begins: bytes() and end() follow; neither does with PD_AUX_GAP: all of it is
	 * lost.
	 */
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
