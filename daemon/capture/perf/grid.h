/* SPDX-License-Identifier: MIT */
/*
 * The events of one target on private sinks: one per thread and CPU, inherited by new threads. All events of a CPU
 * write into one AUX buffer. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_GRID_H
#define CSIGHT_DAEMON_CAPTURE_GRID_H

#include "daemon/capture/perf/backlog.h"
#include "daemon/capture/perf/aux-buffer.h"
#include "daemon/capture/perf/filter.h"
#include "daemon/capture/perf/keeper-client.h"
#include "daemon/capture/perf/pause-list.h"
#include "daemon/capture/perf/plan.h"
#include "lib/base/reason.h"

struct grid {
	/* The keeper of the events, or NULL, and their group there: to be set before grid_open() and grid_adopt(). */
	struct keeper_client *keeper;
	uint64_t group;
	struct address_space_of of; /* the process: to be set with them */
	uint32_t n_kept;            /* number of the next event */
	struct backlog_list backlogs;
	const struct plan *plan;  /* borrowed */
	struct aux_buffer *rings; /* one per CPU of the plan; not mapped (fd -1) while the CPU is unavailable */
	int *fds;                 /* events that write into the buffer of another */
	size_t n_fds, fds_room;
	int *switch_fds; /* software events, which record switches also where tracing is disabled */
	size_t n_switch_fds, switch_fds_room;
	unsigned opened;          /* number of threads for which events were opened */
	bool stopped;             /* tracing has been stopped since the last drain */
	bool off;                 /* tracing is stopped now */
	bool ended;               /* tracing has ended for good */
	bool filled;              /* because a ring of a plan to fill is full */
	struct pause_list pauses; /* of which the end of the last one is not known until the records have been read */
	bool paused;              /* tracing stays stopped until grid_pause() ends the pause */
	bool stuck;               /* the process makes calls for its events wait: nothing but grid_close() may follow */
};

/* False if the grid of this plan has no ring for the CPU; if it is not open, by the plan. */
bool grid_traces(const struct grid *g, const struct plan *plan, uint32_t cpu);

/* Opens all events and starts tracing. -ESRCH: no thread is left. Sets why on other failures. */
int grid_open(struct grid *g, const struct plan *plan, pid_t pid, const struct filter *filter, int poll_fd,
	      struct reason *why);

/*
 * Takes the events that the keeper has from an earlier daemon, which opened them by the same plan. -ENOENT: none.
 * *ret_file: the descriptor that grid_hold() has passed to the keeper; -1: none. The caller folds the replay log first,
 * then the backlogs (backlog_read_all()), and drains the rings last: records are folded in their order.
 */
int grid_adopt(struct grid *g, const struct plan *plan, int poll_fd, int *ret_file);

/* Has the keeper keep a descriptor with the events; and the events themselves, if it does not have them yet. */
int grid_hold(struct grid *g, int fd);
int grid_hold_events(struct grid *g);

/* Adds the switches of the traced threads to a table that lives as long as the grid is drained, or to none. */
void grid_record_switches(struct grid *g, struct thread_table *threads);
void grid_close(struct grid *g);

/* Returns the number of events that are open. */
size_t grid_events(const struct grid *g);

/* Opens events on CPUs that have become available. */
int grid_extend(struct grid *g, pid_t pid, const struct filter *filter, int poll_fd, struct reason *why);

/* After grid_stop() all trace is in the AUX buffers. Switches are still recorded. */
void grid_stop(struct grid *g);
void grid_start(struct grid *g);

/* Ends recording for good; the buffers remain. */
void grid_end(struct grid *g);

/* Restarts events that the kernel disabled because a sink failed. */
void grid_retry(struct grid *g, uint64_t failed_since);

/* Pauses or continues tracing. grid_drain() must precede: records that are read later are judged by the new state. */
void grid_pause(struct grid *g, bool paused);
/* Adds a pause that an earlier daemon has logged. Tracing is still stopped if that did not log its end. */
void grid_replay_pause(struct grid *g, const struct trace_pause *p);

/* now: the records' clock, at a moment before the call; shift: what it is ahead of CLOCK_MONOTONIC. */
void grid_drain(struct grid *g, uint64_t now, int64_t shift, struct buf *scratch);

#endif
