/* SPDX-License-Identifier: MIT */
#include "lib/base/util.h"
#include "lib/code/stack-use.h"
#include "lib/code/unwind.h"

enum {
	STORED_WITHIN = 24,  /* instructions after MOV Xn, SP within which Xn is stored */
	CONSTANT_WITHIN = 4, /* instructions before ADD SP, SP, Xn within which Xn is loaded with a constant */
	LOADED_WITHIN = 8,   /* instructions before MOV SP, Xn within which Xn is loaded */
};

bool stack_use_sets_sp(const uint32_t *code, size_t at)
{
	uint32_t op = code[at];
	unsigned from = op >> 5 & 31, by = op >> 16 & 31;

	if ((op & 0xff00001f) == 0x9100001f || (op & 0xff00001f) == 0xd100001f)
		return from != 31 && from != 29;
	if ((op & 0xffe0001f) != 0x8b20001f)
		return false;
	for (size_t i = at; i-- > 0 && at - i <= CONSTANT_WITHIN;)
		if ((code[i] & 0x1f80001f) == (0x12800000 | by)) /* MOVN, MOVZ, MOVK */
			return false;
	return true;
}

/* Returns whether op is STR or STP of a register to memory outside of the frame: not relative to SP or X29. */
static bool stores_outside_frame(uint32_t op, unsigned reg)
{
	unsigned base = op >> 5 & 31;

	if (base == 31 || base == 29)
		return false;
	if ((op & 0xffc00000) == 0xf9000000 || (op & 0xffe00000) == 0xf8000000)
		return (op & 31) == reg;
	return (op & 0xfe400000) == 0xa8000000 && ((op & 31) == reg || (op >> 10 & 31) == reg);
}

/* Returns whether code stores a register outside of the frame, as it is or after an EOR with a secret, as setjmp()
 * does. */
static bool is_stored_outside_frame(const uint32_t *code, size_t n, unsigned reg)
{
	unsigned hidden = reg;

	for (size_t i = 0; i < n; i++) {
		if (stores_outside_frame(code[i], reg) || stores_outside_frame(code[i], hidden))
			return true;
		if ((code[i] & 0xff200000) == 0xca000000 && ((code[i] >> 5 & 31) == reg || (code[i] >> 16 & 31) == reg))
			hidden = code[i] & 31;
	}
	return false;
}

/* Returns whether op is AND, ADD or SUB with a constant, or MOV, to the stack pointer from a register other than SP
 * and X29. */
static bool sets_stack_from_register(uint32_t op)
{
	unsigned from = op >> 5 & 31;

	return ((op & 0xff80001f) == 0x9200001f || (op & 0xff00001f) == 0x9100001f ||
		(op & 0xff00001f) == 0xd100001f) &&
	       from != 31 && from != 29;
}

/* Returns whether op is LDR of the register from memory outside of the frame: not relative to SP or X29. */
static bool loads_from_outside_frame(uint32_t op, unsigned reg)
{
	unsigned base = op >> 5 & 31;

	return (op & 31) == reg && base != 31 && base != 29 &&
	       ((op & 0xffc00000) == 0xf9400000 || (op & 0xffe00000) == 0xf8400000);
}

bool stack_use_loads_sp(const uint32_t *code, size_t at)
{
	if (!sets_stack_from_register(code[at]))
		return false;
	for (size_t i = at; i-- > 0 && at - i <= LOADED_WITHIN;)
		if (loads_from_outside_frame(code[i], code[at] >> 5 & 31))
			return true;
	return false;
}

unsigned stack_use_flags(const uint32_t *code, size_t n)
{
	bool sets = false, loads = false, saves = false, has = false;

	for (size_t i = 0; i < n; i++) {
		unsigned to = code[i] & 31;

		sets = sets || stack_use_sets_sp(code, i);
		loads = loads || stack_use_loads_sp(code, i);
		if ((code[i] & 0xffffffe0) != 0x910003e0 || to == 29 || to == 31) /* MOV Xn, SP */
			continue;
		has = true;
		saves = saves || is_stored_outside_frame(code + i + 1, MIN(n - i - 1, (size_t)STORED_WITHIN), to);
	}
	return (saves || (has && sets) ? UNWIND_SAVES_STACK : 0) | (sets ? UNWIND_SETS_STACK : 0) |
	       (loads ? UNWIND_LOADS_STACK : 0);
}
