/* SPDX-License-Identifier: MIT */
/*
 * The trace units of this machine: found at the start of the daemon, or later when their kernel modules are loaded.
 * Drains the kernel's sideband on the capture thread as long as it exists. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_TRACE_UNITS_H
#define CSIGHT_DAEMON_TRACE_UNITS_H

#include "daemon/capture/perf/perf.h"
#include "daemon/settings.h"
#include "daemon/target.h"

struct trace_units;

struct trace_units_options {
	struct event_base *base;
	const struct settings *settings;
	struct workqueue *capture_queue;
	struct target_list *targets;
	void (*hits)(void *data, struct target *t); /* a target has hits of its watch points */
	void *data;
};

/* Succeeds without trace units too, unless the setting capture demands them. */
int trace_units_new(const struct trace_units_options *options, struct trace_units **ret);

/* Applies changed settings, such as the size of rings, to rings that are opened from now on. */
void trace_units_update(struct trace_units *u);

/* Stops draining, before the capture thread is stopped. */
void trace_units_stop(struct trace_units *u);
struct trace_units *trace_units_free(struct trace_units *u);

/* Returns NULL if there are none, after it has looked for them again; trace_units_why() is the reason. */
struct perf_machine *trace_units_machine(struct trace_units *u);

/* Returns "" if there are trace units. */
const char *trace_units_why(const struct trace_units *u);

#endif
