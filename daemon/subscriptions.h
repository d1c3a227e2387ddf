/* SPDX-License-Identifier: MIT */
/*
 * Subscribers: calls of Subscribe, which get a reply for each event of their user, or of all users for root. A
 * subscriber that does not read gets an error as its last reply; it delays no other one. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_SUBSCRIPTIONS_H
#define CSIGHT_DAEMON_SUBSCRIPTIONS_H

#include "daemon/daemon.h"
#include "daemon/snapshot.h"
#include "daemon/target.h"

/* Adds a call, or replies that it must have more. */
void subscriptions_add(struct daemon *d, struct call *c);

/* Ends those of users who may not connect any more. */
void subscriptions_update(struct daemon *d);

/* Replies that the daemon ends. */
void subscriptions_end(struct daemon *d);

/* Publishes that a target was armed or has ended; for struct target_list_options. */
void subscriptions_target(void *data, struct target *t, enum target_change change);

/* Publishes that a snapshot is ready or raw. */
void subscriptions_snapshot(struct daemon *d, const struct snapshot *s);

/* Publishes that a snapshot of a process was refused to a user, who alone gets the event. */
void subscriptions_refused(struct daemon *d, uid_t caller, pid_t pid, const char *reason);

#endif
