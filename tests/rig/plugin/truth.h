/* SPDX-License-Identifier: MIT */
/*
 * The truth log (tests/rig/shared.h): the instructions executed, from a callback before each one; it shares no code
 * with the encoder. The thread that runs a virtual CPU writes its file.
 *
 * Of the kernel's trace, the encoder says where it begins and what a decoder can reach: the unit is started and stopped
 * within blocks of instructions.
 */
#ifndef CSIGHT_RIG_TRUTH_H
#define CSIGHT_RIG_TRUTH_H

#include <stdbool.h>

#include "lib/emu/qemu.h"
#include "tests/rig/shared.h"

void truth_open(const char *dir);

/* Before the block's other callbacks are registered. */
void truth_instrument(struct qemu_plugin_tb *tb);

void truth_start(unsigned vcpu, const struct rig_cpu *r, bool kernel, uint64_t ticks);
void truth_stop(unsigned vcpu, uint64_t bytes, uint64_t ticks);
void truth_switch(unsigned vcpu, uint32_t tid, uint32_t tgid, uint64_t ticks);

/* The CPU took an exception that returns to the instruction at `at`, which therefore did not execute. */
void truth_fault(unsigned vcpu, uint64_t at);

/* The CPU leaves what it executes by an exception whose return address is unknown; truth_fault() or truth_entered()
 * follow. */
void truth_vector(unsigned vcpu);
void truth_entered(unsigned vcpu);

/* The trace begins before the next instruction. */
void truth_begin(unsigned vcpu);

/* A decoder reaches what was executed, but for the last n instructions. */
void truth_reached(unsigned vcpu, unsigned n);

void truth_close(void);

#endif
