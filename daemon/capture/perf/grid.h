/*
 * The events of one target on sinks that CPUs have for themselves: one for each thread on each CPU, inherited by
 * threads that are born later; all of a CPU write into that CPU's AUX buffer. On the capture lane.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_GRID_H
#define CSIGHT_DAEMON_CAPTURE_GRID_H

#include "daemon/capture/perf/aux-buffer.h"
#include "daemon/capture/perf/plan.h"
#include "lib/base/reason.h"

struct grid {
	const struct plan *plan;  /* borrowed */
	struct aux_buffer *rings; /* one a CPU of the plan; not mapped (fd -1) where the CPU could not be had yet */
	int *fds;                 /* of events that write into another's buffer */
	size_t n_fds, fds_room;
	uint32_t *tids; /* threads that have events or inherited them */
	size_t n_tids, tids_room;
	unsigned opened; /* threads that events were opened for */
};

/* Opens everything and begins to trace. -ESRCH: it has no thread any more. why tells of other failures. */
int grid_open(struct grid *g, const struct plan *plan, pid_t pid, const char *filter, int poll_fd, struct reason *why);
void grid_close(struct grid *g);

/* Opens what could not be opened before, on CPUs that have come since. */
int grid_extend(struct grid *g, pid_t pid, const char *filter, int poll_fd, struct reason *why);

/* What is stopped has reached the AUX buffers. */
void grid_stop(const struct grid *g);
void grid_start(const struct grid *g);

void grid_drain(struct grid *g, struct buf *scratch);

#endif
