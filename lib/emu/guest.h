/* SPDX-License-Identifier: MIT */
/*
 * Access to the guest's registers, memory and signal frames. Registers are read through symbols that are not part of
 * QEMU's plugin interface: if they are absent, guest_has_registers() is false and signals cannot be distinguished from
 * jumps.
 */
#ifndef CSIGHT_EMU_GUEST_H
#define CSIGHT_EMU_GUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/emu/qemu.h"

enum { GUEST_FP = 29, GUEST_LR = 30, GUEST_SP = 31, GUEST_PC = 32 };

/* struct rt_sigframe of arm64: a siginfo of 128 bytes, a ucontext whose sigcontext begins at 304. */
enum { FRAME_CODE = 8, FRAME_X0 = 312, FRAME_LR = 552, FRAME_SP = 560, FRAME_PC = 568 };

/* True if registers can be read. */
bool guest_has_registers(void);

/* QEMU's structure for the calling thread. Requires guest_has_registers(). */
struct CPUState *guest_cpu(void);

/* A register of the calling thread, at the beginning of a block or outside of blocks. Requires guest_has_registers().
 */
uint64_t guest_register(int number);

/* Returns false if the memory is not mapped. */
bool guest_try_read(uint64_t base, uint64_t address, void *ret, size_t size);

static inline void guest_read(uint64_t base, uint64_t address, void *ret, size_t size)
{
	memcpy(ret, (const void *)(uintptr_t)(base + address), size);
}

static inline uint64_t guest_u64(uint64_t base, uint64_t address)
{
	uint64_t v;

	guest_read(base, address, &v, sizeof(v));
	return v;
}

#endif
