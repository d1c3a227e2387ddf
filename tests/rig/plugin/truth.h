/* SPDX-License-Identifier: MIT */
/*
 * The truth log (tests/rig/shared.h): the instructions executed in user mode, from a callback before each one; it
 * shares no code with the encoder. The thread that runs a virtual CPU writes its file.
 */
#ifndef CSIGHT_RIG_TRUTH_H
#define CSIGHT_RIG_TRUTH_H

#include "lib/emu/qemu.h"
#include "tests/rig/shared.h"

void truth_open(const char *dir);

/* Before the block's other callbacks are registered. */
void truth_instrument(struct qemu_plugin_tb *tb);

void truth_start(unsigned vcpu, const struct rig_cpu *r, uint64_t ticks);
void truth_stop(unsigned vcpu, uint64_t bytes, uint64_t ticks);
void truth_switch(unsigned vcpu, uint32_t tid, uint32_t tgid, uint64_t ticks);

/* The CPU took an exception that returns to the instruction at `at`, which therefore did not execute. */
void truth_fault(unsigned vcpu, uint64_t at);

void truth_close(void);

#endif
