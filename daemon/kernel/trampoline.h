/* SPDX-License-Identifier: MIT */
/*
 * Where the kernel hides its memory from programs (kpti), it is entered and left through a trampoline: code that runs
 * at a fixed address of its own, beside the one that it has in the kernel. No symbol has that address. The kernel's way
 * back to the program, ret_to_user, computes where the exit of the trampoline runs and jumps there.
 */
#ifndef CSIGHT_DAEMON_KERNEL_TRAMPOLINE_H
#define CSIGHT_DAEMON_KERNEL_TRAMPOLINE_H

#include "lib/code/kallsyms.h"

struct trampoline {
	uint64_t code;    /* address in the kernel; a page */
	uint64_t runs_at; /* a page */
	uint64_t size;
	uint64_t exit; /* offset of the way back to a program; before it is the way into the kernel */
};

/* Reads kernel code at an address. Returns how many bytes it could read, at most size. */
typedef size_t trampoline_read_fn(void *data, uint64_t address, void *ret, size_t size);

/* Returns false if there is none, also where the code looks otherwise than expected. */
bool trampoline_find(const struct kallsyms *k, trampoline_read_fn *read, void *data, struct trampoline *ret);

#endif
