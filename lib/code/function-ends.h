/* SPDX-License-Identifier: MIT */
/*
 * Finds the instructions at which an A64 function may return to its caller: its RETs, and those of the functions that
 * it jumps to, by following direct branches from its entry. And where each call of a Go function passes once. The bytes
 * may be hostile.
 */
#ifndef CSIGHT_CODE_FUNCTION_ENDS_H
#define CSIGHT_CODE_FUNCTION_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/reason.h"

enum { FUNCTION_ENDS_INSTRUCTIONS_MAX = 1 << 16 };

struct function_ends {
	uint64_t *places; /* ascending; owned by the caller */
	size_t room, n;
	bool loops; /* it jumps to its own beginning */
};

/*
 * Finds the ends of the function [start, end). read() sets its *ret to the instruction at an address; it returns false
 * if there is no code. The caller has set ret->places, and ret->room to their number. -EOPNOTSUPP: the code does not
 * show where the function returns, as after a jump to a computed address; -E2BIG: it has too many ends, or is too
 * large; both set *why. -ENOMEM.
 */
int function_ends_find(uint64_t start, uint64_t end, bool (*read)(void *data, uint64_t at, uint32_t *ret), void *data,
		       struct function_ends *ret, struct reason *why);

/*
 * Returns the address behind the check of the stack at the beginning of a Go function: where the stack must grow, or
 * the goroutine is to be preempted, the check calls the runtime and jumps back to the beginning. start: there is no
 * check.
 */
uint64_t function_ends_skip_check(uint64_t start, uint64_t end, bool (*read)(void *data, uint64_t at, uint32_t *ret),
				  void *data);

#endif
