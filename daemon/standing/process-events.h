/* SPDX-License-Identifier: MIT */
/*
 * The kernel's events of all processes: fork, and the execution of a program. One software event of perf on each CPU
 * records them, which requires CAP_PERFMON unless kernel.perf_event_paranoid permits it to all. Each event wakes the
 * loop. A CPU that comes online is noticed within a second. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_PROCESS_EVENTS_H
#define CSIGHT_DAEMON_PROCESS_EVENTS_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/reason.h"

struct process_events;

struct process_events_listener {
	void (*forked)(void *data, pid_t parent, pid_t child); /* a process, not a thread */
	void (*executed)(void *data, pid_t pid);
	void (*lost)(void *data); /* some events were lost */
	void *data;
};

/* -EACCES, -EPERM and others: the kernel does not permit it, for the reason in why. */
int process_events_new(struct event_base *base, const struct process_events_listener *listener,
		       struct process_events **ret, struct reason *why);
struct process_events *process_events_free(struct process_events *p);

#endif
