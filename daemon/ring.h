/*
 * A ring: where a target's trace goes, and what may be done with it. Its state is changed on the loop's thread alone;
 * what takes time is done on the capture workqueue by one operation at a time, and others queue behind it here.
 */
#ifndef CSIGHT_DAEMON_RING_H
#define CSIGHT_DAEMON_RING_H

#include <stdbool.h>
#include <sys/queue.h>

#include "daemon/capture/capture.h"

enum ring_state { RING_ARMING, RING_ARMED, RING_FROZEN, RING_DRAINING, RING_DISARMED, RING_GONE };

const char *ring_state_str(enum ring_state state);
bool ring_may(enum ring_state from, enum ring_state to);

/* An operation on a ring: begin() when those before it are over; whoever ends it calls ring_next(). */
struct ring_op {
	void (*begin)(struct ring_op *op);
	STAILQ_ENTRY(ring_op) link;
};

struct ring {
	enum ring_state state;
	pid_t pid; /* for the log */
	const struct capture_ops *ops;
	struct capture_source *source; /* owned */
	bool busy;
	STAILQ_HEAD(, ring_op) waiting;
	unsigned n_waiting;
};

void ring_init(struct ring *r, pid_t pid, const struct capture_ops *ops, struct capture_source *source);
void ring_done(struct ring *r);

/* Logged. A move that the table does not have is a mistake of this program. */
void ring_move(struct ring *r, enum ring_state to);

/* -EBUSY: too many wait. */
int ring_queue(struct ring *r, struct ring_op *op);
void ring_next(struct ring *r);

#endif
