/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/capture/perf/watch-calls.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* Return addresses may be signed in the bits above these. */
#define ADDRESS_MASK 0xffffffffffffull

void watch_calls_done(struct watch_calls *c)
{
	free(c->list);
	*c = (struct watch_calls){ 0 };
}

/* True if both are calls of one slot in one thread or goroutine. */
static bool same_owner(const struct watch_moment *a, const struct watch_moment *b)
{
	return a->slot == b->slot && a->goroutine == b->goroutine && (a->goroutine || a->tid == b->tid);
}

static bool same_return(const struct watch_moment *a, const struct watch_moment *b)
{
	return same_owner(a, b) && (a->lr & ADDRESS_MASK) == (b->lr & ADDRESS_MASK);
}

/*
 * Drops the calls of this owner and slot from index first on, or of these only those with the stack pointer of at.
 * Returns their number.
 */
static unsigned drop_left(struct watch_calls *c, size_t first, const struct watch_moment *at, bool at_same_place)
{
	unsigned dropped = 0;
	size_t kept = first;

	for (size_t i = first; i < c->n; i++) {
		const struct watch_moment *is = &c->list[i];

		if (same_owner(is, at) && (!at_same_place || is->sp == at->sp))
			dropped++;
		else
			c->list[kept++] = *is;
	}
	c->n = kept;
	return dropped;
}

unsigned watch_calls_enter(struct watch_calls *c, const struct watch_moment *at)
{
	/* Two calls with one stack pointer cannot both be open. */
	unsigned left = drop_left(c, 0, at, true);

	/* Goroutines may have ended in calls, by runtime.Goexit(). */
	if (c->n == WATCH_CALLS_MAX && at->goroutine) {
		memmove(c->list, c->list + 1, --c->n * sizeof(*c->list));
		left++;
	}
	if (c->n >= WATCH_CALLS_MAX || array_reserve(c->list, c->n, &c->room) < 0)
		return left + 1;
	c->list[c->n++] = *at;
	return left;
}

/* Returns 1 + the index of the innermost call that may end here, and sets *ret_only if no other may; 0: there is none.
 */
static size_t find_call(const struct watch_calls *c, const struct watch_moment *at, bool *ret_only)
{
	size_t innermost = 0, n = 0;

	*ret_only = true;
	for (size_t i = c->n; i > 0; i--) {
		if (!same_return(&c->list[i - 1], at))
			continue;
		if (c->list[i - 1].sp == at->sp)
			return i;
		innermost = innermost ? innermost : i;
		n++;
	}
	*ret_only = n == 1;
	/* Threads' stacks do not move. */
	return at->goroutine ? innermost : 0;
}

bool watch_calls_leave(struct watch_calls *c, const struct watch_moment *at, uint64_t *ret_ns, unsigned *ret_unknown)
{
	bool only;
	size_t i = find_call(c, at, &only);

	*ret_unknown = 0;
	if (i == 0)
		return false;
	*ret_ns = at->time > c->list[i - 1].time ? at->time - c->list[i - 1].time : 0;
	/* What was entered since and is still open was left without a return. */
	*ret_unknown = drop_left(c, i - 1, at, false) - only;
	return only;
}

void watch_calls_drop(struct watch_calls *c, uint32_t tid, void (*fn)(void *data, uint32_t slot), void *data)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (tid && (c->list[i].tid != tid || c->list[i].goroutine))
			c->list[kept++] = c->list[i];
		else
			fn(data, c->list[i].slot);
	}
	c->n = kept;
}
