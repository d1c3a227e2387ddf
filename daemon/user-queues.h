/* SPDX-License-Identifier: MIT */
/*
 * Workqueues of users: works that touch files of a user, which may block for ever, run on a thread that has works of
 * this user alone. Threads are made on demand and end when they have been idle. Their number is limited; works of a
 * user without a thread wait. A thread that is blocked in a file system ends with that file system, not with csightd.
 * On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_USER_QUEUES_H
#define CSIGHT_DAEMON_USER_QUEUES_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/ledger.h"
#include "daemon/workqueue.h"

struct user_queues;
struct user_queue;

/* Like struct work: run() is called on the thread of the user, done() on the loop's. */
struct user_work {
	struct work work;
	STAILQ_ENTRY(user_work) link;
	struct user_queue *queue;
	uid_t uid;
	void (*run)(struct user_work *w);
	void (*done)(struct user_work *w); /* may free w */
};

/* ledger: knows the accounts of subordinate uids. */
int user_queues_new(struct event_base *base, const struct ledger *ledger, struct user_queues **ret);

/* Works of one user run in order. */
void user_queues_submit(struct user_queues *all, uid_t uid, struct user_work *w);

/* Returns the number of works of a user that are not done. */
unsigned user_queues_waiting(const struct user_queues *all, uid_t uid);

enum { USER_QUEUE_SECONDS = 5 };

/* True if the user's thread has run one work for more than USER_QUEUE_SECONDS, or none is free for the user. */
bool user_queues_stuck(const struct user_queues *all, uid_t uid);

#endif
