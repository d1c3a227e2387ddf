/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/turns.h"
#include "lib/base/util.h"

static const uint64_t loop_ns = 10000000; /* for the turns of all users in one turn of the loop */

struct turns {
	struct ledger *ledger;
	struct fair_queue queue;
	struct event *next;
};

static void schedule(struct turns *s)
{
	const struct timeval now = { 0, 0 };

	if (!event_pending(s->next, EV_TIMEOUT, NULL))
		event_add(s->next, &now);
}

static void on_next(evutil_socket_t fd, short what, void *data)
{
	struct turns *s = data;
	uint64_t began = now_ns(CLOCK_MONOTONIC), at = began;
	struct fair_item *item;

	while (at - began < loop_ns && (item = fair_queue_pop(&s->queue))) {
		struct turn *t = container_of(item, struct turn, item);
		struct fair_item taken = *item;
		uint64_t now;

		t->waits = false;
		t->run(t);
		now = now_ns(CLOCK_MONOTONIC);
		fair_queue_charge(&s->queue, &taken, now - at);
		at = now;
	}
	if (!fair_queue_empty(&s->queue))
		schedule(s);
}

int turns_new(struct event_base *base, struct ledger *ledger, struct turns **ret)
{
	struct turns *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->ledger = ledger;
	fair_queue_init(&s->queue);
	s->next = evtimer_new(base, on_next, s);
	if (!s->next) {
		turns_free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

void turns_wait(struct turns *s, struct turn *t, uid_t uid)
{
	if (t->waits)
		return;
	t->waits = true;
	fair_queue_push(&s->queue, &t->item, ledger_owner(s->ledger, uid));
	schedule(s);
}

void turns_leave(struct turns *s, struct turn *t)
{
	if (t->waits)
		fair_queue_remove(&s->queue, &t->item);
	t->waits = false;
}

struct turns *turns_free(struct turns *s)
{
	if (!s)
		return NULL;
	if (s->next)
		event_free(s->next);
	fair_queue_done(&s->queue);
	free(s);
	return NULL;
}
