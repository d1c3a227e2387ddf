/*
 * A workqueue is a thread that runs works one after another: what would be slow on the event loop. Only the loop's
 * thread submits. run() happens on the workqueue's thread and done() afterwards on the loop's; in between the work, and
 * what it points to, belongs to the workqueue.
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

/* nice: of its thread, where this process may have that. */
int workqueue_new(struct event_base *base, const char *name, int nice, struct workqueue **ret);

void workqueue_submit(struct workqueue *l, struct work *w);

/* Waits until all that was submitted is run and done; what is submitted to it from then on runs at once, in place. */
void workqueue_stop(struct workqueue *l);
struct workqueue *workqueue_free(struct workqueue *l);

#endif
