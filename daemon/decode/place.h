/* SPDX-License-Identifier: MIT */
/*
 * Where a thread ended: the function and source line of its last instruction. If the program ended itself, by abort(),
 * an assertion, an exception or exit(), that is in its runtime libraries: then the innermost function outside of them,
 * and what it had called there. A fault within them names both functions.
 */
#ifndef CSIGHT_DECODE_PLACE_H
#define CSIGHT_DECODE_PLACE_H

#include "lib/base/ending.h"
#include "lib/calls/calls.h"

/* Strings live as long as the map of regions; NULL: unknown. */
struct place {
	const char *function;
	const char *file;
	uint32_t line;
	uint64_t address;
	const char *through; /* what function had called in the runtime */
	const char *caller;  /* of a function of the runtime: the innermost one outside of it, and its line */
	const char *caller_file;
	uint32_t caller_line;
};

/* Finds where the thread of c is now. time: of its end. False: unknown, or only in the runtime. */
bool place_find(struct region_map *regions, const struct calls *c, uint64_t time, struct place *ret);

/* Adds the place to an ending as lib/base/ending.h describes it, and to its text. */
void place_add(const struct place *p, json_object *ending);

#endif
