/* SPDX-License-Identifier: MIT */
/* Classifies A64 instructions by how they end a basic block (Arm ARM, C4.1 "A64 instruction set encoding"). */
#ifndef CSIGHT_CODE_A64_H
#define CSIGHT_CODE_A64_H

#include <stdbool.h>
#include <stdint.h>

enum a64_kind { A64_PLAIN, A64_BRANCH, A64_CONDITIONAL, A64_INDIRECT, A64_ISB, A64_SVC };

/* Returns the signed immediate of `bits` bits at `shift`, in instructions, as a distance in bytes. */
static inline int64_t a64_offset(uint32_t op, unsigned shift, unsigned bits)
{
	return ((int64_t)((uint64_t)(op >> shift) << (64 - bits)) >> (64 - bits)) * 4;
}

/* Sets *link if the instruction is a call (it writes X30), and *target for direct branches, else 0. */
static inline enum a64_kind a64_classify(uint32_t op, uint64_t pc, bool *link, uint64_t *target)
{
	*link = false;
	*target = 0;
	if ((op & 0x7c000000) == 0x14000000) { /* B, BL */
		*link = op >> 31;
		*target = pc + (uint64_t)a64_offset(op, 0, 26);
		return A64_BRANCH;
	}
	if ((op & 0xff000000) == 0x54000000 || (op & 0x7e000000) == 0x34000000) { /* B.cond, BC.cond; CBZ, CBNZ */
		*target = pc + (uint64_t)a64_offset(op, 5, 19);
		return A64_CONDITIONAL;
	}
	if ((op & 0x7e000000) == 0x36000000) { /* TBZ, TBNZ */
		*target = pc + (uint64_t)a64_offset(op, 5, 14);
		return A64_CONDITIONAL;
	}
	if ((op & 0xfe000000) == 0xd6000000) { /* BR, BLR, RET and their pointer-authenticating forms */
		*link = (op >> 21 & 7) == 1;
		return A64_INDIRECT;
	}
	if ((op & 0xfffff0ff) == 0xd50330df)
		return A64_ISB;
	if ((op & 0xffe0001f) == 0xd4000001)
		return A64_SVC;
	return A64_PLAIN;
}

#endif
