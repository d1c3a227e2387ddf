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
 * Is code[at] MOV, ADD or SUB to the stack pointer from a register other than SP and X29? An unwinder skips frames by
 * ADD SP, SP, Xn. The same instruction with a constant in Xn ends a large frame, and does not count.
 */
bool stack_use_sets(const uint32_t *code, size_t at);

/* Does code[at] set the stack pointer to a value that an instruction shortly before it loads from outside of the frame?
 */
bool stack_use_loads(const uint32_t *code, size_t at);

#endif
