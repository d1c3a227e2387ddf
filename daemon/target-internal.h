/* SPDX-License-Identifier: MIT */
/* Shared by target.c, target-list.c, target-ending.c and target-arm.c. */
#ifndef CSIGHT_DAEMON_TARGET_INTERNAL_H
#define CSIGHT_DAEMON_TARGET_INTERNAL_H

#include "daemon/target.h"

enum { TARGET_VICTIMS = 16 };

/* A thread whose process the out-of-memory killer has ended. */
struct target_victim {
	pid_t tid;
	uint64_t time; /* CLOCK_MONOTONIC */
};

struct target_list {
	struct target_list_options o;
	struct target_head list;
	uint64_t last_number;
	struct event *age;
	STAILQ_HEAD(, target) leaving;
	struct event *sweep;                          /* drops those that are leaving */
	struct target_victim victims[TARGET_VICTIMS]; /* of no target, as far as that was known; the newest */
	size_t n_victims;
	bool deaf; /* the exit listener lacks some processes */
};

/* Drops the list's reference of a target, at the loop's next turn. */
void target_list_remove(struct target_list *all, struct target *t);

/* Removes the oldest ended targets of a user until the others are within the limits. */
void target_list_limit_history(struct target_list *all, uid_t uid);

/* Subscribes to the exit events of the processes whose endings are not known yet. */
void target_list_listen(struct target_list *all);

void target_report_change(struct target *t, enum target_change change);

/* Drops the trace of a process that has become another user's, who it would show. */
void target_become_foreign(struct target *t);

/* Returns what the target's user may have of the trace units. */
struct capture_share target_share(const struct target *t);

/* Reports that the process has ended, and how if that is known. */
void target_log_gone(struct target *t);

/* Finds out how a process ended that was not known to, if that is possible now. */
void target_settle_late(struct target *t);

/* The process's descriptor is readable: it has ended. data: the target. */
void target_on_ended(evutil_socket_t fd, short what, void *data);

#endif
