/*
 * Memory that is no code: FILLER_SIZE bytes, aligned to as many, of which not one instruction ends a range. No compiler
 * makes such, and nothing ends a walk that comes into it but its own length. For either engine the instruction behind
 * it is not there, so that both end at the same place, wherever they came from.
 */
#ifndef CSIGHT_ETM_FILLER_H
#define CSIGHT_ETM_FILLER_H

#include "lib/etm/instr.h"

enum { FILLER_SIZE = 128 << 10 };

/* Whether what is before the address is such, of A64. */
bool filler_before(const struct instr_set *set, const struct engine_memory *memory,
		   const struct engine_context *context, uint64_t address);

#endif
