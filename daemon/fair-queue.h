/* SPDX-License-Identifier: MIT */
/*
 * A queue that is fair between users: deficit round robin over the cost that was measured. Each user's items stay in
 * order; users take turns, and one that has cost more than the others waits until they have had as much. What an item
 * costs is not known before it is done, so that a user goes into debt; a round is as long as the least debt of those
 * who wait, so that there is always an item to take, whatever they cost. For one thread, or under the owner's lock.
 */
#ifndef CSIGHT_DAEMON_FAIR_QUEUE_H
#define CSIGHT_DAEMON_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct fair_flow;

/* To be a member of each struct that is queued. */
struct fair_item {
	STAILQ_ENTRY(fair_item) link;
	uid_t uid;
	struct fair_flow *flow; /* NULL: it is urgent, or there was no memory for a turn of its own */
	uint64_t estimate;      /* charged when it was taken, until its cost is known */
};

/* Zeros, and the list initialized by fair_queue_init(). */
struct fair_queue {
	TAILQ_HEAD(, fair_flow) flows; /* of users who have items that wait, whose items are being done, or in debt */
	STAILQ_HEAD(fair_items, fair_item) urgent;
	size_t waiting, running;
};

void fair_queue_init(struct fair_queue *q);

/* Frees the memory; the items stay the owner's. */
void fair_queue_done(struct fair_queue *q);

void fair_queue_push(struct fair_queue *q, struct fair_item *item, uid_t uid);

/* Queues an item before all others; its cost is charged to no user. */
void fair_queue_push_urgent(struct fair_queue *q, struct fair_item *item);

/* Takes the next item; NULL if none can be taken. fair_queue_charge() must follow when it is done. */
struct fair_item *fair_queue_pop(struct fair_queue *q);

/* Charges what an item has cost, in any unit, to its user. */
void fair_queue_charge(struct fair_queue *q, struct fair_item *item, uint64_t cost);

/*
 * Puts back an item, of a turn (flow), that was taken and cannot be done now: it is the next one of its user, of whom
 * none is taken before fair_queue_resume(), which ends this for all users. It costs nothing.
 */
void fair_queue_put_back(struct fair_queue *q, struct fair_item *item);
void fair_queue_resume(struct fair_queue *q);

/*
 * If another user waits for a place, lets that user have the place of an item that was taken: no other of the item's
 * user is taken before fair_queue_charge() of this one. Returns false if none waits, or this user has been suspended.
 */
bool fair_queue_suspend(struct fair_queue *q, const struct fair_item *item);

/* Takes an item that waits out of the queue. */
void fair_queue_remove(struct fair_queue *q, struct fair_item *item);

/* Returns how many items of a user wait. */
size_t fair_queue_count(const struct fair_queue *q, uid_t uid);
static inline bool fair_queue_empty(const struct fair_queue *q)
{
	return q->waiting == 0;
}

#endif
