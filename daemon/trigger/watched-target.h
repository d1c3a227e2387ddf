/* SPDX-License-Identifier: MIT */
/*
 * A target with the watch points of all its triggers: sets their list in its source, and reads the hits. On the loop's
 * thread.
 */
#ifndef CSIGHT_DAEMON_WATCHED_TARGET_H
#define CSIGHT_DAEMON_WATCHED_TARGET_H

#include <event2/event.h>
#include <sys/queue.h>

#include "daemon/target.h"
#include "daemon/turns.h"
#include "daemon/workqueue.h"

struct watched_target {
	LIST_ENTRY(watched_target) link;
	unsigned refs;
	struct target *target;
	struct workqueue *capture_queue;
	struct capture_watch_list list;
	uint64_t cursor; /* number of the last hit that was read */
	bool missed;     /* hits were overwritten, of which one may have frozen the rings */
	/* The operation on the ring that sets the list and releases the rings. */
	struct ring_op op;
	struct work work;
	struct capture_watch_list setting;
	int rc;            /* of the last setting of the list */
	struct reason why; /* why that failed */
	bool busy, sets, releases;
	bool changed, held; /* the next operation sets the list; it releases the rings */
	uint64_t changed_ns;
	struct event *tick;
	bool ticking;
	struct turns *turns;
	struct turn turn; /* to read hits */
	uid_t account;    /* whose turn it is */
	void (*hit)(void *data, struct watched_target *w, const struct emu_hit *h);
	/* failure NULL: the list is in effect; else some changes since the last call are not, for this reason. */
	void (*applied)(void *data, struct watched_target *w, const struct reason *failure);
	/* The process has ended, and all its hits have been passed to hit(). */
	void (*settled)(void *data, struct watched_target *w);
	bool settling;
	void *data;
};

LIST_HEAD(watched_targets, watched_target);

/* account: who is charged for it. The caller sets hit, applied, settled and data. -ENOMEM. */
int watched_target_new(struct event_base *base, struct turns *turns, struct workqueue *capture_queue, struct target *t,
		       uid_t account, struct watched_target **ret);
struct watched_target *watched_target_ref(struct watched_target *w);
struct watched_target *watched_target_unref(struct watched_target *w);

/* The list has changed: puts it into effect; applied() follows. */
void watched_target_changed(struct watched_target *w);

/* Lets the rings continue, if a hit has frozen them. */
void watched_target_release(struct watched_target *w);

/* Reads the hits of a process that has ended. False: some may be unread; settled() follows. */
bool watched_target_settle(struct watched_target *w);

/* Has new hits passed to hit(), in a turn of the target's owner. */
void watched_target_drain(struct watched_target *w);

#endif
