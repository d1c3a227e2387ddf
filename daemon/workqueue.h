/* SPDX-License-Identifier: MIT */
/*
 * A workqueue: one thread that runs works, for what would block the event loop. Works are submitted from the loop's
 * thread. Those of one user run in order; users take turns, by the time that their works have taken. run() is called on
 * the queue's thread, then done() on the loop's; until done() the work, and what it points to, belong to the queue's
 * thread.
 */
#ifndef CSIGHT_DAEMON_WORKQUEUE_H
#define CSIGHT_DAEMON_WORKQUEUE_H

#include <event2/event.h>
#include <sys/queue.h>

#include "daemon/fair-queue.h"

struct workqueue;

struct work {
	void (*run)(struct work *w);
	void (*done)(struct work *w); /* may free w */
	union {
		struct fair_item item;   /* until run() */
		STAILQ_ENTRY(work) link; /* until done() */
	};
};

/* Starts a thread with this name and nice value; without the right to a lower nice value, that stays as it is. */
int workqueue_new(struct event_base *base, const char *name, int nice, struct workqueue **ret);

/* Submit a work, of user 0 (the daemon itself) or of a user. */
void workqueue_submit(struct workqueue *q, struct work *w);
void workqueue_submit_for(struct workqueue *q, struct work *w, uid_t uid);

/* Submits a work that runs before all waiting ones. */
void workqueue_submit_urgent(struct workqueue *q, struct work *w);

/* Returns the processor time of its thread. */
uint64_t workqueue_cpu_ns(const struct workqueue *q);

/* Waits until all submitted works are run and done. Works submitted later run at once, on the caller's thread. */
void workqueue_stop(struct workqueue *q);
struct workqueue *workqueue_free(struct workqueue *q);

#endif
