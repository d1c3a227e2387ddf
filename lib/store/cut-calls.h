/* SPDX-License-Identifier: MIT */
/* Calls of a thread that gaps ended, to count those that go on behind a gap once. */
#ifndef CSIGHT_STORE_CUT_CALLS_H
#define CSIGHT_STORE_CUT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/calls/calls.h"

struct cut_calls {
	/* Their functions, as they were in the stack, but those that are known to be over. */
	uint32_t *list;
	size_t n, cap;
	size_t base;         /* of the last gap */
	bool cutting;        /* more calls of that gap are left next */
	size_t joined;       /* one plus the number of the one that was joined last; 0: other events followed */
	size_t joined_first; /* the number of the outermost that was joined with it */
	uint32_t *counts;    /* by function: how many of the list are of it */
	size_t n_counts, cap_counts;
};

/* Notes that a gap ends the call at this depth, 0 being the outermost; those below it are next, down to that. -ENOMEM.
 */
int cut_calls_add(struct cut_calls *c, size_t depth, uint32_t function);

/*
 * Returns true if a call of a function that has been open since before the segment is one that a gap ended, the
 * innermost; or, directly within one that is, the outermost in it. There is one of the function.
 */
bool cut_calls_join(struct cut_calls *c, uint32_t function);
void cut_calls_end_joined(struct cut_calls *c);
void cut_calls_done(struct cut_calls *c);

/* A frame is left: what the calls that were joined last had called is over. */
static inline void cut_calls_leave(struct cut_calls *c)
{
	if (c->joined)
		cut_calls_end_joined(c);
}

/*
 * Returns true for a frame that was entered, or that has been open since before the thread's trace began. again: it is
 * the outermost of a stack that the thread has left before.
 */
static inline bool cut_calls_enter(struct cut_calls *c, uint32_t function, enum call_kind kind, bool again)
{
	bool resumed = calls_kind_is_resumed(kind);

	c->cutting = false;
	if (kind != CALL_INFERRED && !resumed) {
		cut_calls_leave(c);
		return true;
	}
	if (function < c->n_counts && c->counts[function] && cut_calls_join(c, function))
		return false;
	return !resumed && !again;
}

#endif
