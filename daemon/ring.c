/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>

#include "daemon/ring.h"
#include "lib/base/log.h"

enum { OPS_WAITING_MAX = 16 };

static const char *const names[] = {
	[RING_ARMING] = "arming",     [RING_ARMED] = "armed",       [RING_FROZEN] = "frozen",
	[RING_DRAINING] = "draining", [RING_DISARMED] = "disarmed", [RING_GONE] = "gone",
};

#define BIT(state) (1u << (state))

static const unsigned allowed[] = {
	[RING_ARMING] = BIT(RING_ARMED) | BIT(RING_DISARMED) | BIT(RING_GONE),
	[RING_ARMED] = BIT(RING_FROZEN) | BIT(RING_DRAINING) | BIT(RING_GONE),
	[RING_FROZEN] = BIT(RING_ARMED) | BIT(RING_GONE),
	[RING_DRAINING] = BIT(RING_DISARMED) | BIT(RING_ARMED) | BIT(RING_GONE),
	[RING_DISARMED] = BIT(RING_ARMING) | BIT(RING_GONE),
	[RING_GONE] = 0,
};

const char *ring_state_str(enum ring_state state)
{
	return names[state];
}

bool ring_may(enum ring_state from, enum ring_state to)
{
	return (allowed[from] & BIT(to)) != 0;
}

void ring_init(struct ring *r, pid_t pid, struct capture_source *source)
{
	*r = (struct ring){ .state = RING_ARMING, .pid = pid, .source = source };
	STAILQ_INIT(&r->waiting);
}

void ring_done(struct ring *r)
{
	assert(!r->busy && STAILQ_EMPTY(&r->waiting));
	if (r->source)
		r->source->ops->free(r->source);
	r->source = NULL;
}

void ring_move(struct ring *r, enum ring_state to)
{
	assert(ring_may(r->state, to));
	log_debug("ring of process %d: %s → %s", (int)r->pid, names[r->state], names[to]);
	r->state = to;
}

int ring_queue(struct ring *r, struct ring_op *op)
{
	if (!r->busy) {
		r->busy = true;
		op->begin(op);
		return 0;
	}
	if (r->n_waiting >= OPS_WAITING_MAX)
		return -EBUSY;
	STAILQ_INSERT_TAIL(&r->waiting, op, link);
	r->n_waiting++;
	return 0;
}

void ring_next(struct ring *r)
{
	struct ring_op *op = STAILQ_FIRST(&r->waiting);

	assert(r->busy);
	if (!op) {
		r->busy = false;
		return;
	}
	STAILQ_REMOVE_HEAD(&r->waiting, link);
	r->n_waiting--;
	op->begin(op);
}
