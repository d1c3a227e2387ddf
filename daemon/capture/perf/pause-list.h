/* SPDX-License-Identifier: MIT */
/* When rings were not traced. Not thread-safe. */
#ifndef CSIGHT_DAEMON_CAPTURE_PAUSE_LIST_H
#define CSIGHT_DAEMON_CAPTURE_PAUSE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/capture/perf/replay-log.h"

/* Threads may have run untraced: slices that ended after `from` and before `to`, at least one on each side, are not
 * adjacent. */
struct trace_pause {
	uint64_t from, to; /* in the records' clock; equal: just after this time */
	uint64_t changed;  /* 1: tracing was being stopped or started; 0: a sink failed */
};

struct pause_list {
	struct trace_pause *list; /* ascending; to is UINT64_MAX where the end is not known yet */
	size_t n, room;
	/* From the first stop or start that is not in the list until the last one, CLOCK_MONOTONIC; 0: none. */
	uint64_t change_from, change_to;
	uint64_t change_begun; /* change_from in the records' clock; 0: not converted yet */
};

void pause_list_done(struct pause_list *p);

/*
 * Appends a pause, also to the log, if there is one, and drops those that ended before oldest. Too many pauses become
 * fewer, which are longer.
 */
void pause_list_add(struct pause_list *p, const struct trace_pause *pause, uint64_t oldest, struct replay_log *log);

/* Appends one that an earlier daemon has logged, or gives an open one its end. */
void pause_list_replay(struct pause_list *p, const struct trace_pause *pause, uint64_t oldest);

/* True if tracing was stopped, and nothing says that it was started again. */
bool pause_list_is_open(const struct pause_list *p);

/*
 * The events are stopped and started one after another, which began then and ends now. Meanwhile a thread may have run
 * untraced on one CPU, and traced on another before and after.
 */
void pause_list_change(struct pause_list *p, uint64_t began);

/* True if that is not in the list yet. *ret: since when. shift: what the records' clock is ahead of CLOCK_MONOTONIC. */
bool pause_list_changes(const struct pause_list *p, int64_t shift, uint64_t *ret);

/*
 * Adds that once it has ended, and ends the open ones. off: tracing is still stopped; the beginning is converted at
 * once, since the clocks drift, and logged for the next daemon, which does not know the end. now: in the records'
 * clock.
 */
void pause_list_settle(struct pause_list *p, uint64_t now, int64_t shift, bool off, uint64_t oldest,
		       struct replay_log *log);

#endif
