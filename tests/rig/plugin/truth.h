/*
 * The truth log (tests/rig/shared.h): what executed in user mode, by a callback before each instruction, with no code
 * in common with the encoder. Each virtual CPU's file is written by the thread that runs it.
 */
#ifndef CSIGHT_RIG_TRUTH_H
#define CSIGHT_RIG_TRUTH_H

#include "lib/emu/qemu.h"
#include "tests/rig/shared.h"

void truth_open(const char *dir);

/* Before the block's other callbacks are registered. */
void truth_instrument(struct qemu_plugin_tb *tb);

void truth_start(unsigned vcpu, uint32_t trace_id, uint64_t ticks);
void truth_stop(unsigned vcpu, uint64_t bytes, uint64_t ticks);
void truth_switch(unsigned vcpu, uint32_t tid, uint32_t tgid, uint64_t ticks);

/* The CPU took an exception that an instruction caused and goes back to `at`: that one did not execute. */
void truth_fault(unsigned vcpu, uint64_t at);

void truth_close(void);

#endif
