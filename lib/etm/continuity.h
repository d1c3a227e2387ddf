/* SPDX-License-Identifier: MIT */
/*
 * Checks that each range begins where the code of the range before it leads. Trace holds only what does not follow from
 * the code, so a range that begins elsewhere means damaged trace or wrong code. A64 only.
 */
#ifndef CSIGHT_ETM_CONTINUITY_H
#define CSIGHT_ETM_CONTINUITY_H

#include "lib/etm/engine.h"

/* Zeros are the initial state. */
struct continuity {
	uint64_t next; /* expected start of the next range */
	bool known;    /* next is valid */
};

/*
 * Called for every element, in order. Returns false where the element cannot follow the one before it; later elements
 * are then checked against this one. context is the one that the element's code was read with.
 */
bool continuity_holds(struct continuity *c, const struct element *e, const struct engine_memory *memory,
		      const struct engine_context *context);

#endif
