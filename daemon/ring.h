/* SPDX-License-Identifier: MIT */
/*
 * A ring: the buffer of a target's trace, with its state. The state changes on the loop's thread only. Operations that
 * take time run on the capture thread, one at a time for each ring; the others wait in the ring's queue.
 */
#ifndef CSIGHT_DAEMON_RING_H
#define CSIGHT_DAEMON_RING_H

#include <stdbool.h>
#include <sys/queue.h>

#include "daemon/capture/capture.h"

enum ring_state { RING_ARMING, RING_ARMED, RING_FROZEN, RING_DRAINING, RING_DISARMED, RING_GONE };

const char *ring_state_str(enum ring_state state);
bool ring_may(enum ring_state from, enum ring_state to);

/* An operation on a ring. begin() is called after the earlier operations have ended; it ends with ring_next(). */
struct ring_op {
	void (*begin)(struct ring_op *op);
	STAILQ_ENTRY(ring_op) link;
};

struct ring {
	enum ring_state state;
	pid_t pid;                     /* of the target, for the log */
	struct capture_source *source; /* owned */
	bool busy;                     /* an operation has begun */
	STAILQ_HEAD(, ring_op) waiting;
	unsigned n_waiting;
};

void ring_init(struct ring *r, pid_t pid, struct capture_source *source);
void ring_done(struct ring *r);

/* Logs the move. One that the table of states does not allow is an error of the program. */
void ring_move(struct ring *r, enum ring_state to);

/* Begins an operation, at once or after the others. -EBUSY: too many wait. */
int ring_queue(struct ring *r, struct ring_op *op);

/* Ends the current operation and begins the next one. */
void ring_next(struct ring *r);

#endif
