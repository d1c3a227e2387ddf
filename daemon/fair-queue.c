/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>

#include "daemon/fair-queue.h"
#include "lib/base/util.h"

/* The items of one user. debt: what they have cost beyond the rounds so far. */
struct fair_flow {
	TAILQ_ENTRY(fair_flow) link;
	uid_t uid;
	struct fair_items items;
	size_t running;
	bool held;                         /* no item of it is taken */
	const struct fair_item *suspender; /* the item that is done before any other is taken, or NULL */
	uint64_t debt;
	uint64_t last; /* cost of its last item: the estimate of those that run */
};

void fair_queue_init(struct fair_queue *q)
{
	*q = (struct fair_queue){ 0 };
	TAILQ_INIT(&q->flows);
	STAILQ_INIT(&q->urgent);
}

void fair_queue_done(struct fair_queue *q)
{
	struct fair_flow *f;

	while ((f = TAILQ_FIRST(&q->flows))) {
		TAILQ_REMOVE(&q->flows, f, link);
		free(f);
	}
	fair_queue_init(q);
}

static struct fair_flow *find_flow(const struct fair_queue *q, uid_t uid)
{
	struct fair_flow *f;

	TAILQ_FOREACH (f, &q->flows, link)
		if (f->uid == uid)
			break;
	return f;
}

static void drop_flow(struct fair_queue *q, struct fair_flow *f)
{
	TAILQ_REMOVE(&q->flows, f, link);
	free(f);
}

/* Between users who wait, debts matter; with none of them, there is nothing to be fair about. */
static void drop_idle_flows(struct fair_queue *q)
{
	struct fair_flow *f, *next;

	for (f = TAILQ_FIRST(&q->flows); f; f = next) {
		next = TAILQ_NEXT(f, link);
		if (STAILQ_EMPTY(&f->items) && !f->running && (f->debt == 0 || (!q->waiting && !q->running)))
			drop_flow(q, f);
	}
}

void fair_queue_push(struct fair_queue *q, struct fair_item *item, uid_t uid)
{
	struct fair_flow *f = find_flow(q, uid);

	item->uid = uid;
	if (!f && (f = calloc(1, sizeof(*f)))) {
		f->uid = uid;
		STAILQ_INIT(&f->items);
		TAILQ_INSERT_TAIL(&q->flows, f, link);
	}
	item->flow = f;
	q->waiting++;
	if (f)
		STAILQ_INSERT_TAIL(&f->items, item, link);
	else
		STAILQ_INSERT_TAIL(&q->urgent, item, link);
}

void fair_queue_push_urgent(struct fair_queue *q, struct fair_item *item)
{
	item->flow = NULL;
	item->uid = (uid_t)-1;
	q->waiting++;
	STAILQ_INSERT_TAIL(&q->urgent, item, link);
}

/* Returns the waiting user with the least debt; of two with equal debt, the one whose turn was longer ago. */
static struct fair_flow *least_debt(struct fair_queue *q)
{
	struct fair_flow *f, *found = NULL;

	TAILQ_FOREACH (f, &q->flows, link)
		if (!STAILQ_EMPTY(&f->items) && !f->held && !f->suspender && (!found || f->debt < found->debt))
			found = f;
	return found;
}

static void end_round(struct fair_queue *q, uint64_t length)
{
	struct fair_flow *f;

	if (length == 0)
		return;
	TAILQ_FOREACH (f, &q->flows, link)
		f->debt -= MIN(f->debt, length);
}

struct fair_item *fair_queue_pop(struct fair_queue *q)
{
	struct fair_item *item = STAILQ_FIRST(&q->urgent);
	struct fair_flow *f;

	f = item ? NULL : least_debt(q);
	if (!item && !f)
		return NULL;
	q->waiting--;
	q->running++;
	if (item) {
		STAILQ_REMOVE_HEAD(&q->urgent, link);
		return item;
	}
	end_round(q, f->debt);
	item = STAILQ_FIRST(&f->items);
	STAILQ_REMOVE_HEAD(&f->items, link);
	f->running++;
	/* Until its cost is known, an item counts like the last one, so that a user does not get all turns at once. */
	item->estimate = MAX(f->last, 1u);
	f->debt += item->estimate;
	TAILQ_REMOVE(&q->flows, f, link);
	TAILQ_INSERT_TAIL(&q->flows, f, link);
	drop_idle_flows(q);
	return item;
}

void fair_queue_charge(struct fair_queue *q, struct fair_item *item, uint64_t cost)
{
	struct fair_flow *f = item->flow;

	item->flow = NULL;
	q->running--;
	if (f) {
		f->running--;
		if (f->suspender == item)
			f->suspender = NULL;
		f->last = MAX(cost, 1u);
		f->debt += f->last;
		f->debt -= MIN(f->debt, item->estimate);
	}
	if (!q->waiting && !q->running)
		drop_idle_flows(q);
}

bool fair_queue_suspend(struct fair_queue *q, const struct fair_item *item)
{
	struct fair_flow *f, *own = item->flow;

	if (!own || own->suspender)
		return false;
	TAILQ_FOREACH (f, &q->flows, link)
		if (f != own && !f->suspender && !STAILQ_EMPTY(&f->items)) {
			own->suspender = item;
			return true;
		}
	return false;
}

void fair_queue_put_back(struct fair_queue *q, struct fair_item *item)
{
	struct fair_flow *f = item->flow;

	q->running--;
	q->waiting++;
	f->running--;
	f->debt -= MIN(f->debt, item->estimate);
	f->held = true;
	STAILQ_INSERT_HEAD(&f->items, item, link);
}

void fair_queue_resume(struct fair_queue *q)
{
	struct fair_flow *f;

	TAILQ_FOREACH (f, &q->flows, link)
		f->held = false;
}

void fair_queue_remove(struct fair_queue *q, struct fair_item *item)
{
	if (item->flow)
		STAILQ_REMOVE(&item->flow->items, item, fair_item, link);
	else
		STAILQ_REMOVE(&q->urgent, item, fair_item, link);
	q->waiting--;
	drop_idle_flows(q);
}

size_t fair_queue_count(const struct fair_queue *q, uid_t uid)
{
	const struct fair_flow *f = find_flow(q, uid);
	const struct fair_item *item;
	size_t n = 0;

	if (f)
		STAILQ_FOREACH (item, &f->items, link)
			n++;
	return n;
}
