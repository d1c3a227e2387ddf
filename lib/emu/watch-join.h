/* SPDX-License-Identifier: MIT */
/*
 * A watch of the kind EMU_WATCH_JOIN: has a hit when each of its events has had one within its time. A hit counts once:
 * after one of the join, each event needs another. Callers pass hits in the order of their times.
 */
#ifndef CSIGHT_EMU_WATCH_JOIN_H
#define CSIGHT_EMU_WATCH_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/emu/ring.h"

/* CLOCK_MONOTONIC of the last hit of each event; 0: none. */
struct watch_join {
	uint64_t last[EMU_EVENTS_MAX];
};

/* True if a watch, by its index in the list, is of an event of the join. */
static inline bool watch_join_has(const struct emu_watch *w, uint32_t watch)
{
	for (unsigned i = 0; w->kind == EMU_WATCH_JOIN && i < EMU_EVENTS_MAX; i++)
		if (w->events[i] >> watch & 1)
			return true;
	return false;
}

/* Records the hit of a watch. Returns true if it is one of the join. */
static inline bool watch_join_hit(struct watch_join *j, const struct emu_watch *w, uint32_t watch, uint64_t time)
{
	for (unsigned i = 0; i < EMU_EVENTS_MAX; i++)
		if (w->events[i] >> watch & 1)
			j->last[i] = time;
	for (unsigned i = 0; i < EMU_EVENTS_MAX; i++)
		if (w->events[i] && (!j->last[i] || time - j->last[i] > w->longer_than))
			return false;
	*j = (struct watch_join){ { 0 } };
	return true;
}

#endif
