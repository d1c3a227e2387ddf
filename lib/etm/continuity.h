/*
 * Whether each range begins where the code before it leads. A trace tells only what the code leaves open, so a range
 * that begins elsewhere says that the trace was garbled on its way or that the code is not what ran. A64 only.
 */
#ifndef CSIGHT_ETM_CONTINUITY_H
#define CSIGHT_ETM_CONTINUITY_H

#include "lib/etm/engine.h"

/* All zero: nothing is known. */
struct continuity {
	uint64_t next; /* where the next range begins */
	bool known;
};

/*
 * To be asked of every element, in order. False: this one cannot follow; what comes after it is measured by it.
 * context: under which its code was read.
 */
bool continuity_holds(struct continuity *c, const struct element *e, const struct engine_memory *memory,
		      const struct engine_context *context);

#endif
