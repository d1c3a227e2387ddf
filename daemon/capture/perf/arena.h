/*
 * One event a CPU for whatever runs there: of sinks that CPUs share, or for the whole machine. All targets see the same
 * AUX buffers, of which one's bytes are told apart later. On the capture lane, of one thread for ever.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_ARENA_H
#define CSIGHT_DAEMON_CAPTURE_ARENA_H

#include "daemon/capture/perf/aux-buffer.h"
#include "daemon/capture/perf/plan.h"
#include "lib/base/reason.h"

struct arena {
	struct plan *plan;        /* owned; NULL: closed */
	struct aux_buffer *rings; /* one a CPU of the plan */
	int *events;              /* that write into them: the ring's own, or its successor since the CPU was off */
	uint64_t *enabled;        /* for how long each event had been, when last looked at */
	bool stopped;             /* what was in the sinks is in the AUX buffers, and others may use them */
};

/* p is taken, also on failure. A CPU that is off is passed over; why tells of a failure. */
int arena_open(struct arena *a, struct plan *p, int poll_fd, struct reason *why);
void arena_close(struct arena *a);

void arena_stop(struct arena *a);
void arena_start(struct arena *a);

/* What the sinks hold reaches the AUX buffers of their keepers, and all go on. ns in which nothing was traced. */
uint64_t arena_flush(struct arena *a);

void arena_drain(struct arena *a, struct buf *scratch);

/*
 * Where a thread_entry of another PID namespace ran when tracing began the kernel left context IDs out: begins anew on
 * those CPUs, as a thread_entry of its own. After arena_drain(). Returns on how many.
 */
unsigned arena_mend_contexts(struct arena *a);

/* Enables events that failed and opens those of CPUs that came (back). ret_failed: some are not running. */
int arena_look_after(struct arena *a, int poll_fd, bool *ret_failed, struct reason *why);

#endif
