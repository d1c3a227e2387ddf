/*
 * The cs_etm PMU of the kernel, through perf_event_open. A source is one process; what all of them share (topology, the
 * kernel's sideband records, the arena where a sink serves every CPU) is the machine, one a daemon.
 *
 * The capture lane opens, maps and owns every descriptor: the kernel ties events to the thread that opened them, and
 * refuses shared sinks to other threads. The loop makes and frees sources, and asks; nothing that it calls waits.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PERF_H
#define CSIGHT_DAEMON_CAPTURE_PERF_H

#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "lib/base/reason.h"

extern const struct capture_ops perf_capture;

struct perf_machine;

struct perf_settings {
	const char *sysroot; /* of the topology; NULL: "/" */
	const char *sink;    /* for targets that name none; NULL: the best there is */
	uint64_t aux_size;   /* of a target's ring on each CPU, and of the arena's; 0: 4 MiB */
	uint64_t memory;     /* that the rings of all targets may take; 0: an eighth of the machine's */
	bool machine;        /* trace everything on shared sinks always, so that each process has a history */
};

/*
 * Opens nothing yet. -ENODEV: no trace that perf could give; why tells in words on any failure. A kernel without
 * CoreSight now may have it later, when modules come: call again.
 */
int perf_machine_new(const struct perf_settings *settings, struct perf_machine **ret, struct reason *why);

/* When the lane has stopped and every source is freed. */
struct perf_machine *perf_machine_free(struct perf_machine *m);

/* Whether such a target's trace goes to a sink that holds other processes' too. From the loop. */
bool perf_machine_shared(struct perf_machine *m, const struct capture_options *o);

/*
 * Takes in what the kernel wrote beside the trace, looks after CPUs that come and go, and retries what failed: run it
 * on the lane whenever the descriptor is readable, and at least each PERF_DRAIN_MS. The descriptor is readable until a
 * drain ran: watch it with an event that is not persistent, and add that again when the work is done.
 */
enum { PERF_DRAIN_MS = 200 };
int perf_machine_fd(const struct perf_machine *m);
void perf_machine_drain(struct perf_machine *m);

/*
 * On the loop; not armed yet. pidfd stays the caller's, options are copied. -ENOTSUP, -ENODEV …: ops->arm() tells why
 * through ops->trouble().
 */
int perf_target_new(struct perf_machine *m, pid_t pid, int pidfd, uid_t uid, const struct capture_options *o,
		    struct capture_source **ret);

/*
 * The process executed what made it somebody else's (setuid, capabilities): nothing of it is recorded from then on, and
 * to its owner it has ended. Look after each drain.
 */
bool perf_target_lost(const struct capture_source *s);

#endif
