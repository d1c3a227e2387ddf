/* SPDX-License-Identifier: MIT */
/* Arms and disarms targets. */
#include "config.h"

#include "daemon/target-internal.h"

enum { CHANGES_WAITING_MAX = 16 };

/* An operation that arms or disarms: on the ring, apply() moves it through a state to another. */
struct state_change {
	struct ring_op op;
	struct work work;
	struct target *target;
	STAILQ_ENTRY(state_change) link;
	enum ring_state from, through, to;
	int (*apply)(struct capture_source *s);
	void (*done)(struct target *t, int rc, void *data);
	void *data;
	int rc;
};

void target_remove_unarmed(struct target *t)
{
	if (t->adopted && t->ring.state == RING_DISARMED && !t->ring.busy && t->listed)
		target_list_remove(t->all, t);
}

static void state_change_end(struct state_change *c, int rc)
{
	if (rc < 0 && c->to == RING_ARMED && c->target->arms)
		c->target->arms--;
	c->done(c->target, rc, c->data);
	target_unref(c->target);
	free(c);
}

static void run_state_change(struct work *w)
{
	struct state_change *c = container_of(w, struct state_change, work);

	c->rc = c->apply(c->target->ring.source);
}

static void state_change_ran(struct work *w)
{
	struct state_change *c = container_of(w, struct state_change, work);
	struct target *t = c->target;
	struct ring *r = &t->ring;

	if (r->state == RING_GONE)
		c->rc = -ESRCH;
	else if (c->rc == 0 && c->to == RING_ARMED)
		target_armed(t);
	else if ((c->rc < 0 ? c->from : c->to) == RING_DISARMED)
		target_disarmed(t);
	else
		ring_move(r, RING_ARMED);
	ring_next(r);
	target_ref(t);
	state_change_end(c, c->rc);
	target_remove_unarmed(t);
	target_unref(t);
}

/* What follows a disarm waits with it. */
static void wait_for_recordings(struct state_change *c)
{
	struct state_change *other;
	unsigned n = 0;

	STAILQ_FOREACH (other, &c->target->changes, link)
		n++;
	if (n < CHANGES_WAITING_MAX)
		STAILQ_INSERT_TAIL(&c->target->changes, c, link);
	else
		state_change_end(c, -EBUSY);
}

static void state_change_begin(struct ring_op *op)
{
	struct state_change *c = container_of(op, struct state_change, op);
	struct target *t = c->target;
	struct ring *r = &t->ring;

	if (target_leaves(t) || (c->to == RING_DISARMED && t->recordings)) {
		wait_for_recordings(c);
		ring_next(r);
		return;
	}
	if (r->state != c->from) {
		bool dropped = r->state == RING_GONE && c->to == RING_DISARMED && t->listed;
		int rc = r->state == c->to || dropped ? 0 : r->state == RING_GONE ? -ESRCH : -EINVAL;

		if (dropped)
			target_list_remove(t->all, t);
		ring_next(r);
		state_change_end(c, rc);
		return;
	}
	ring_move(r, c->through);
	if (c->to == RING_DISARMED)
		t->arms = 0;
	/* The capture thread reads it of the sources that are armed. */
	if (c->to == RING_ARMED)
		r->source->share = target_share(t);
	workqueue_submit_for(t->all->o.capture_queue, &c->work, ledger_owner(t->all->o.ledger, t->owner));
}

static void state_change_queue(struct target *t, const struct state_change *wanted)
{
	struct state_change *c = malloc(sizeof(*c));

	if (!c) {
		target_ref(t);
		wanted->done(t, -ENOMEM, wanted->data);
		target_remove_unarmed(t);
		target_unref(t);
		return;
	}
	*c = *wanted;
	c->target = target_ref(t);
	if (ring_queue(&t->ring, &c->op) < 0)
		state_change_end(c, -EBUSY);
}

void target_arm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data)
{
	t->arms++;
	state_change_queue(t, &(struct state_change){ .op.begin = state_change_begin,
						      .work = { run_state_change, state_change_ran },
						      .from = RING_DISARMED,
						      .through = RING_ARMING,
						      .to = RING_ARMED,
						      .apply = t->ring.source->ops->arm,
						      .done = done,
						      .data = data });
}

void target_disarm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data)
{
	state_change_queue(t, &(struct state_change){ .op.begin = state_change_begin,
						      .work = { run_state_change, state_change_ran },
						      .from = RING_ARMED,
						      .through = RING_DRAINING,
						      .to = RING_DISARMED,
						      .apply = t->ring.source->ops->disarm,
						      .done = done,
						      .data = data });
}

void target_recorded(struct target *t, bool begins)
{
	STAILQ_HEAD(, state_change) ready = STAILQ_HEAD_INITIALIZER(ready);
	struct state_change *c;

	t->recordings += begins ? 1 : -1u;
	if (!t->recordings)
		STAILQ_CONCAT(&ready, &t->changes);
	while ((c = STAILQ_FIRST(&ready))) {
		STAILQ_REMOVE_HEAD(&ready, link);
		if (ring_queue(&t->ring, &c->op) < 0)
			state_change_end(c, -EBUSY);
	}
}

bool target_leaves(const struct target *t)
{
	return !STAILQ_EMPTY(&t->changes);
}
