/* SPDX-License-Identifier: MIT */
/*
 * The events of shared sinks, or of the whole machine: one per CPU, which traces whatever runs there. All targets share
 * the AUX buffers; the decoder separates their trace. Every call must come from the same thread, the capture thread.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_ARENA_H
#define CSIGHT_DAEMON_CAPTURE_ARENA_H

#include "daemon/capture/perf/aux-buffer.h"
#include "daemon/capture/perf/backlog.h"
#include "daemon/capture/perf/keeper-client.h"
#include "daemon/capture/perf/pause-list.h"
#include "daemon/capture/perf/plan.h"
#include "daemon/capture/perf/replay-log.h"
#include "lib/base/reason.h"

struct arena {
	struct plan *plan;        /* owned; NULL: closed */
	struct aux_buffer *rings; /* one per CPU of the plan */
	/* events that write into the rings: the mapped one, or its successor after the CPU was offline */
	int *events;
	uint64_t *enabled;            /* enabled time of each event at the last check */
	struct keeper_client *keeper; /* who keeps the events, or NULL */
	struct replay_log *log;       /* the replay log of the rings, or NULL */
	int log_fd;                   /* the descriptor of that of an earlier daemon, within arena_adopt() */
	struct backlog_list backlogs;
	bool adopted; /* an earlier daemon opened the events: the kernel refuses the sinks to others beside them */
	bool restored_partly; /* the replay log of an earlier daemon was not complete */
	bool stopped;         /* the sinks have been emptied into the AUX buffers, and others may use them */
	struct pause_list pauses;
};

/*
 * Opens and starts the events. Owns p from then on, also on failure. Skips CPUs that are offline. Sets why on failure.
 */
int arena_open(struct arena *a, struct plan *p, int poll_fd, struct reason *why);
void arena_close(struct arena *a);

/*
 * Takes the events that the keeper has from an earlier daemon, which opened them by the same plan, and starts them.
 * Owns p on success alone. *ret_log: the descriptor of their replay log; the caller folds that next, then the backlogs.
 * -ENOENT: there are no events; -ESTALE: they are of another plan.
 */
enum { KEEPER_ARENA = 2 /* the group */ };
int arena_adopt(struct arena *a, struct plan *p, struct keeper_client *k, int poll_fd, int *ret_log);

/* Undoes arena_adopt(): the plan is the caller's again, and the keeper still has the events. */
void arena_abandon(struct arena *a);

/* Passes the events and the replay log to a keeper that has neither, and uses it from then on. 0, or negative errno. */
int arena_hold(struct arena *a, struct keeper_client *k);

void arena_stop(struct arena *a);
void arena_start(struct arena *a);

/*
 * Stops and starts all events, so that the contents of the sinks reach the AUX buffers. Returns the time without
 * tracing, ns.
 */
uint64_t arena_flush(struct arena *a);

/* now: the records' clock, at a moment before the call; shift: what it is ahead of CLOCK_MONOTONIC. */
void arena_drain(struct arena *a, uint64_t now, int64_t shift, struct buf *scratch);

/*
 * If a task of another PID namespace was running when tracing of a CPU began, the kernel recorded no context IDs there:
 * restarts tracing on those CPUs while this thread runs. To be called after arena_drain(). Returns the number of CPUs.
 */
unsigned arena_restore_contexts(struct arena *a);

/* Enables failed events and opens events on CPUs that came online. ret_failed: some events are not running. */
int arena_maintain(struct arena *a, int poll_fd, bool *ret_failed, struct reason *why);

#endif
