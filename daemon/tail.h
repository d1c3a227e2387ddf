/* SPDX-License-Identifier: MIT */
/*
 * Tails: each drains the rings of a target again and again, as a recording does, and sends them through a socket, as
 * a live trace file (trace-file.h). The socket does not block: a step is drained only after the one before has been
 * written, so that the trace of a reader that stops is overwritten in the rings, and a gap of known length. A tail
 * takes memory that does not grow, charged to the target's owner beside one of its requests. It ends for a reason
 * below, and frees itself. On the loop's thread; the steps run on the recorder's thread, in turns with those of other
 * users.
 */
#ifndef CSIGHT_DAEMON_TAIL_H
#define CSIGHT_DAEMON_TAIL_H

#include "daemon/target.h"

enum tail_end {
	TAIL_GOES_ON,
	TAIL_TIME,     /* its own limit */
	TAIL_READER,   /* the reader has closed the socket, or does not read what is left of a tail that has ended */
	TAIL_TARGET,   /* the process has ended */
	TAIL_DISARMED, /* the target was disarmed */
	TAIL_USER,     /* the process has changed its user */
	TAIL_DENIED,   /* the user who reads it may not connect any more */
	TAIL_DAEMON,   /* csightd ends */
	TAIL_FAILED,   /* memory is short, or the trace cannot be read */
};

struct tail_list;

struct tail_list_options {
	struct event_base *base;
	struct workqueue *queue, *capture_queue; /* of the recorder, and of the capture thread */
	struct ledger *ledger;
};

int tail_list_new(const struct tail_list_options *options, struct tail_list **ret);

/* Ends the tails of users who may not connect any more. */
void tail_list_update(struct tail_list *list, const struct settings *settings);

/* Ends all tails, since csightd ends: at once, or after the step that is under way. */
void tail_list_stop(struct tail_list *list);

/* To be called after all tails have ended. Returns NULL. */
struct tail_list *tail_list_free(struct tail_list *list);

/*
 * Makes a tail of a target whose source can drain. max_time: ns; 0: no limit. *ret_fd: the reader's end.
 * -EDQUOT: the ledger refused it, and the reason is in ret_refusal.
 */
struct tail;
int tail_new(struct tail_list *list, struct target *t, uint64_t max_time, struct tail **ret, int *ret_fd,
	     struct ledger_refusal *ret_refusal);

/* Begins to drain the target, which is armed now, for a user with these groups; the tail frees itself from then on. */
void tail_begin(struct tail *t, uid_t reader, const gid_t *groups, size_t n_groups);

/* Frees a tail that has not begun. Returns NULL. */
struct tail *tail_free(struct tail *t);

#endif
