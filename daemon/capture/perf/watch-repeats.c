/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/capture/perf/watch-repeats.h"
#include "lib/base/array.h"

struct watch_repeat {
	uint32_t tid;
	bool interrupted; /* a signal was delivered, whose handler may still run */
	struct watch_registers at;
};

void watch_repeats_done(struct watch_repeats *r)
{
	free(r->list);
	*r = (struct watch_repeats){ 0 };
}

/*
 * Returns the index of the entry with these registers; r->n: there is none. Of any thread: no two are on one stack, and
 * a goroutine that a signal interrupts may continue in another.
 */
static size_t find(const struct watch_repeats *r, const struct watch_registers *at)
{
	size_t i = 0;

	while (i < r->n && memcmp(&r->list[i].at, at, sizeof(*at)) != 0)
		i++;
	return i;
}

static void drop(struct watch_repeats *r, size_t i)
{
	r->n--;
	memmove(r->list + i, r->list + i + 1, (r->n - i) * sizeof(*r->list));
}

/* Drops the entries of a thread from index first on. */
static void drop_newer(struct watch_repeats *r, uint32_t tid, size_t first)
{
	for (size_t i = r->n; i > first; i--)
		if (!tid || r->list[i - 1].tid == tid)
			drop(r, i - 1);
}

/*
 * The thread is at a place of which there is no entry. It has left that of its last hit, unless a signal interrupted it
 * there; and that where a signal did with this stack pointer, since handlers run below it, or on another stack.
 */
static void drop_left(struct watch_repeats *r, uint32_t tid, const struct watch_registers *at)
{
	for (size_t i = r->n; i > 0; i--) {
		const struct watch_repeat *is = &r->list[i - 1];

		if (is->tid == tid && (!is->interrupted || is->at.values[WATCH_SP] == at->values[WATCH_SP]))
			drop(r, i - 1);
	}
}

bool watch_repeats_hit(struct watch_repeats *r, uint32_t tid, const struct watch_registers *at)
{
	size_t i = find(r, at);

	if (i < r->n && r->list[i].interrupted) {
		/* The handlers have ended, and what interrupted them, too; elsewhere, those of another stack go on. */
		if (r->list[i].tid == tid)
			drop_newer(r, tid, i + 1);
		r->list[i].tid = tid;
		r->list[i].interrupted = false;
		return true;
	}
	if (i < r->n)
		drop(r, i);
	drop_left(r, tid, at);
	if (r->n == WATCH_REPEATS_MAX)
		drop(r, 0);
	if (array_reserve(r->list, r->n, &r->room) == 0)
		r->list[r->n++] = (struct watch_repeat){ .tid = tid, .at = *at };
	return false;
}

void watch_repeats_deliver(struct watch_repeats *r, uint32_t tid, const struct watch_registers *at)
{
	size_t i = find(r, at);

	if (i < r->n)
		r->list[i].interrupted = true;
	else
		drop_left(r, tid, at);
}

void watch_repeats_drop(struct watch_repeats *r, uint32_t tid)
{
	drop_newer(r, tid, 0);
}
