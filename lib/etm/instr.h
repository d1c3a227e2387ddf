/* SPDX-License-Identifier: MIT */
/*
 * Classifies A64 instructions as a trace unit does (IHI0064, "P0 instructions"; Arm ARM, C4.1 "A64 instruction set
 * encoding"): whether a range of executed instructions ends with one, and where control goes from there.
 */
#ifndef CSIGHT_ETM_INSTR_H
#define CSIGHT_ETM_INSTR_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/etm/engine.h"

/* Features of the processor and its trace unit. */
struct instr_set {
	bool pauth;        /* branches with pointer authentication: Armv8.3 */
	bool transactions; /* TSTART is a P0 instruction: not in ETMv4.3 and older */
	bool wfi, wfit;    /* WFI and WFE are P0 instructions; and WFIT and WFET */
};

struct instr {
	uint8_t kind, sub; /* enum element_instr, element_sub; INSTR_OTHER: the range continues */
	bool link;         /* a branch with link */
	bool conditional;
	int64_t offset; /* of a direct branch's target */
};

/* Branches, exception generation and system instructions; all other instructions are INSTR_OTHER. */
static inline bool instr_may_end(uint32_t op)
{
	return (op & 0x1c000000) == 0x14000000;
}

struct instr_set instr_set_of(const struct engine_config *config);
void instr_decode(const struct instr_set *set, uint32_t op, struct instr *ret);

#endif
