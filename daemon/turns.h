/* SPDX-License-Identifier: MIT */
/*
 * What users cause the event loop to do: their calls, the messages of their programs, the hits of their triggers. Users
 * take turns, by the time that theirs have taken, and all together have a limited time in one turn of the loop. On the
 * loop's thread.
 */
#ifndef CSIGHT_DAEMON_TURNS_H
#define CSIGHT_DAEMON_TURNS_H

#include <event2/event.h>

#include "daemon/fair-queue.h"
#include "daemon/ledger.h"

struct turns;

/* To be a member of what takes turns; zeros but for run(), which may free it, and should end within a millisecond. */
struct turn {
	struct fair_item item;
	bool waits;
	void (*run)(struct turn *t);
};

int turns_new(struct event_base *base, struct ledger *ledger, struct turns **ret);

/* Has run() called once, unless that is due already. */
void turns_wait(struct turns *s, struct turn *t, uid_t uid);

/* It is not called any more. */
void turns_leave(struct turns *s, struct turn *t);

/* To be called after all have left. Returns NULL. */
struct turns *turns_free(struct turns *s);

#endif
