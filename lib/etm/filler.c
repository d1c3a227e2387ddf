/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/filler.h"

enum { READ_SIZE = 256 };

static bool ends_range(const struct instr_set *set, uint32_t op)
{
	struct instr i;

	if (!instr_may_end(op))
		return false;
	instr_decode(set, op, &i);
	return i.kind != INSTR_OTHER;
}

bool filler_before(const struct instr_set *set, const struct engine_memory *memory,
		   const struct engine_context *context, uint64_t address)
{
	uint32_t code[READ_SIZE / 4];

	if (address % FILLER_SIZE != 0 || address == 0)
		return false;
	/* From the end backwards: in code there is a branch nearby. */
	for (uint64_t at = address; at != address - FILLER_SIZE;) {
		at -= READ_SIZE;
		if (memory->read(memory->user, context, at, code, READ_SIZE) != READ_SIZE)
			return false;
		for (size_t i = ELEMENTS(code); i; i--)
			if (ends_range(set, code[i - 1]))
				return false;
	}
	return true;
}
