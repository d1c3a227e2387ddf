/* SPDX-License-Identifier: MIT */
/*
 * Capture backend for the kernel's cs_etm PMU, by perf_event_open(). A target is one process. The machine, one per
 * daemon, holds what all targets share: the topology, the sideband, and the arena of shared sinks.
 *
 * The capture thread opens, maps and owns every descriptor: the kernel binds events to the thread that opened them, and
 * refuses shared sinks to other threads. The event loop creates, queries and frees targets; none of these calls blocks.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PERF_H
#define CSIGHT_DAEMON_CAPTURE_PERF_H

#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "lib/base/reason.h"

extern const struct capture_ops perf_capture;

struct perf_machine;

struct perf_settings {
	const char *sysroot; /* root of sysfs and procfs for the topology; NULL: "/" */
	const char *sink;    /* for targets that name none; NULL: the best one */
	const char *cpus;    /* the only ones that are traced; NULL: all */
	uint64_t aux_size;   /* of a target's ring on each CPU, and of the arena's, bytes; 0: 4 MiB */
	uint64_t memory;     /* limit for the rings of all targets, bytes; 0: an eighth of the machine's memory */
	const char *keeper;  /* socket of csight-keeper; NULL: none */
	const char *kernel;  /* socket of csight-kernel; NULL: none */
	bool machine;        /* trace everything at all times, so that each process has a history */
	bool any_hazard;     /* use TRBE also where it is known to be unsafe */
};

/*
 * Opens no event yet. -ENODEV: perf can trace nothing here. Sets why on failure. CoreSight modules may be loaded later:
 * call again then.
 */
int perf_machine_new(const struct perf_settings *settings, struct perf_machine **ret, struct reason *why);

/* Changes aux_size and memory of the settings, for rings that are opened from now on. On the capture thread. */
void perf_machine_limit(struct perf_machine *m, uint64_t aux_size, uint64_t memory);

/*
 * Stops the recording of all processes, and keeps their history, or continues. What is armed while paused is stopped by
 * the next call. On the capture thread.
 */
void perf_machine_pause(struct perf_machine *m, bool paused);

/* To be called after the capture thread has ended and every target is freed. */
struct perf_machine *perf_machine_free(struct perf_machine *m);

/*
 * True if the trace of a target with these options goes to a sink that holds other processes' trace. Event loop only.
 */
bool perf_machine_shared(struct perf_machine *m, const struct capture_options *o);

/*
 * Reads the sideband, handles CPUs that go offline or online, and retries what failed. Runs on the capture thread
 * whenever the descriptor is readable, and at least perf_machine_drain_ms() after the last time. The descriptor stays
 * readable until a drain has run: watch it with a non-persistent event, and add the event again after the drain.
 */
enum { PERF_DRAIN_MS = 200 };
unsigned perf_machine_drain_ms(const struct perf_machine *m);
int perf_machine_fd(const struct perf_machine *m);
void perf_machine_drain(struct perf_machine *m);

/*
 * Creates a disarmed target. Event loop only. The caller keeps pidfd; options are copied. Errors that depend on the
 * machine are reported by ops->arm() and explained by ops->trouble().
 */
int perf_target_new(struct perf_machine *m, pid_t pid, int pidfd, uid_t uid, const struct capture_options *o,
		    struct capture_source **ret);

/* What the target was created with. */
const struct capture_options *perf_target_options(const struct capture_source *source);

/*
 * True if the process has executed a program that gained privileges (set-user-ID, capabilities): it is no longer its
 * owner's, and nothing of it is recorded from then on. Check after each drain, and treat the target as ended.
 */
bool perf_target_lost(const struct capture_source *s);

/* True if there are hits of its watch points since the last call. Check after each drain. */
bool perf_target_has_hits(struct capture_source *s);

#endif
