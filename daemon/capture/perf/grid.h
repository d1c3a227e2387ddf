/* SPDX-License-Identifier: MIT */
/*
 * The events of one target on private sinks: one per thread and CPU, inherited by new threads. All events of a CPU
 * write into one AUX buffer. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_GRID_H
#define CSIGHT_DAEMON_CAPTURE_GRID_H

#include "daemon/capture/perf/aux-buffer.h"
#include "daemon/capture/perf/plan.h"
#include "lib/base/reason.h"

struct grid {
	const struct plan *plan;  /* borrowed */
	struct aux_buffer *rings; /* one per CPU of the plan; not mapped (fd -1) while the CPU is unavailable */
	int *fds;                 /* events that write into the buffer of another */
	size_t n_fds, fds_room;
	uint32_t *tids; /* threads whose events were opened or inherited */
	size_t n_tids, tids_room;
	unsigned opened; /* number of threads for which events were opened */
};

/* Opens all events and starts tracing. -ESRCH: no thread is left. Sets why on other failures. */
int grid_open(struct grid *g, const struct plan *plan, pid_t pid, const char *filter, int poll_fd, struct reason *why);
void grid_close(struct grid *g);

/* Opens events on CPUs that have become available. */
int grid_extend(struct grid *g, pid_t pid, const char *filter, int poll_fd, struct reason *why);

/* After grid_stop() all trace is in the AUX buffers. */
void grid_stop(const struct grid *g);
void grid_start(const struct grid *g);

void grid_drain(struct grid *g, struct buf *scratch);

#endif
