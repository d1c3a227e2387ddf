/* SPDX-License-Identifier: MIT */
/* How A64 code uses the stack pointer other than for its own frame. The functions keep no state. */
#ifndef CSIGHT_CODE_STACK_USE_H
#define CSIGHT_CODE_STACK_USE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the UNWIND_ flags (unwind.h) that apply to n instructions. */
unsigned stack_use_flags(const uint32_t *code, size_t n);

/*
 * Returns whether code[at] sets the stack pointer to a value from outside of the frame: MOV, ADD or SUB from a register
 * other than SP and X29, or ADD SP, SP, Xn, by which an unwinder skips frames. That with a constant in Xn ends a large
 * frame, and does not count.
 */
bool stack_use_sets_sp(const uint32_t *code, size_t at);

/* Returns whether code[at] sets the stack pointer to what an instruction shortly before it loads from outside of the
 * frame. */
bool stack_use_loads_sp(const uint32_t *code, size_t at);

#endif
