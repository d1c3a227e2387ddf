/* SPDX-License-Identifier: MIT */
/*
 * The list of watch points of a target, for its triggers; and the hits that come from there. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_WATCHED_TARGET_H
#define CSIGHT_DAEMON_WATCHED_TARGET_H

#include <event2/event.h>
#include <sys/queue.h>

#include "daemon/target.h"
#include "daemon/workqueue.h"

struct watched_target {
	LIST_ENTRY(watched_target) link;
	unsigned refs;
	struct target *target;
	struct workqueue *capture_queue;
	struct capture_watch_list list;
	uint64_t cursor; /* of hits */
	/* The operation on the ring that sets the list and releases the rings. */
	struct ring_op op;
	struct work work;
	struct capture_watch_list setting;
	int rc;            /* of setting it */
	struct reason why; /* of its failure */
	bool busy, sets, releases;
	bool changed, held; /* for the next operation */
	uint64_t changed_ns;
	struct event *tick;
	bool ticking;
	void (*hit)(void *data, struct watched_target *w, const struct emu_hit *h);
	/* The list is in effect; or some of what was changed since the last call is not, with why. */
	void (*applied)(void *data, struct watched_target *w, const struct reason *failure);
	/* The process had ended, and all its hits are read now. */
	void (*settled)(void *data, struct watched_target *w);
	bool settling;
	void *data;
};

LIST_HEAD(watched_targets, watched_target);

/* hit, applied and data are set by the caller. -ENOMEM. */
int watched_target_new(struct event_base *base, struct workqueue *capture_queue, struct target *t,
		       struct watched_target **ret);
struct watched_target *watched_target_ref(struct watched_target *w);
struct watched_target *watched_target_unref(struct watched_target *w);

/* The list has changed: puts it into effect; applied() follows. */
void watched_target_changed(struct watched_target *w);

/* Lets the rings continue, if a hit has frozen them. */
void watched_target_release(struct watched_target *w);

/*
 * The process has ended: reads its hits. False: some may be unknown yet; settled() follows.
 */
bool watched_target_settle(struct watched_target *w);

/* Reads new hits now, and again soon. */
void watched_target_drain(struct watched_target *w);

#endif
