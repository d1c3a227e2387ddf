/* SPDX-License-Identifier: MIT */
/*
 * A workqueue: one thread that runs works in order, for what would block the event loop. Works are submitted from the
 * loop's thread. run() is called on the queue's thread, then done() on the loop's; until done() the work, and what it
 * points to, belong to the queue's thread.
 */
#ifndef CSIGHT_DAEMON_WORKQUEUE_H
#define CSIGHT_DAEMON_WORKQUEUE_H

#include <event2/event.h>
#include <sys/queue.h>

struct workqueue;

struct work {
	void (*run)(struct work *w);
	void (*done)(struct work *w); /* may free w */
	STAILQ_ENTRY(work) link;
};

/* name, nice: of the thread; without the right to a lower nice value, it stays as it is. */
int workqueue_new(struct event_base *base, const char *name, int nice, struct workqueue **ret);

void workqueue_submit(struct workqueue *q, struct work *w);

/* Waits until all submitted works are run and done. Works submitted later run at once, on the caller's thread. */
void workqueue_stop(struct workqueue *q);
struct workqueue *workqueue_free(struct workqueue *q);

#endif
