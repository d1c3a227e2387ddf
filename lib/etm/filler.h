/* SPDX-License-Identifier: MIT */
/*
 * Filler: memory that is not code, FILLER_SIZE bytes, aligned to as many, without an instruction that ends a range. No
 * compiler generates this, and a walk through the code that enters filler ends only by its limit. Both engines treat
 * the instruction behind filler as missing, so that their walks end at the same place, wherever they began.
 */
#ifndef CSIGHT_ETM_FILLER_H
#define CSIGHT_ETM_FILLER_H

#include "lib/etm/instr.h"

enum { FILLER_SIZE = 128 << 10 };

/* Returns whether there is filler of A64 before the address. */
bool filler_before(const struct instr_set *set, const struct engine_memory *memory,
		   const struct engine_context *context, uint64_t address);

#endif
