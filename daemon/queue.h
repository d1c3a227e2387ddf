/*
 * A lane is a thread that runs works one after another: what would be slow on the event loop. Only the loop's thread
 * submits. run() happens on the lane's thread and done() afterwards on the loop's; in between the work, and what it
 * points to, belongs to the lane.
 */
#ifndef CSIGHT_DAEMON_QUEUE_H
#define CSIGHT_DAEMON_QUEUE_H

#include <event2/event.h>
#include <sys/queue.h>

struct lane;

struct work {
	void (*run)(struct work *w);
	void (*done)(struct work *w); /* may free w */
	STAILQ_ENTRY(work) link;
};

/* nice: of its thread, where this process may have that. */
int lane_new(struct event_base *base, const char *name, int nice, struct lane **ret);

void lane_submit(struct lane *l, struct work *w);

/* Waits until all that was submitted is run and done; what is submitted to it from then on runs at once, in place. */
void lane_stop(struct lane *l);
struct lane *lane_free(struct lane *l);

#endif
