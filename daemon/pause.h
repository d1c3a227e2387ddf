/* SPDX-License-Identifier: MIT */
/*
 * A pause of all recording: rings keep their history, and nothing is added until it ends. It outlasts the daemon, not
 * the machine. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_PAUSE_H
#define CSIGHT_DAEMON_PAUSE_H

#include "daemon/target.h"
#include "daemon/trace-units.h"
#include "daemon/workqueue.h"

struct pause_options {
	struct workqueue *capture_queue;
	struct target_list *targets;
	struct trace_units *units;
};

/*
 * Begins or ends a pause; done() follows when the capture thread has stopped or started all rings. Returns 0 or
 * -ENOMEM.
 */
int pause_all(const struct pause_options *o, bool paused, void (*done)(void *data), void *data);

/* Pauses a single target, or continues it. Returns 0 or -ENOMEM. */
int pause_one(const struct pause_options *o, struct target *t, bool paused);

#endif
