/* SPDX-License-Identifier: MIT */
/*
 * The truth log: the executed instructions, recorded by a callback before each instruction. It shares no code with the
 * encoder except the access to registers. Each thread has a file PID.TID.SERIAL.truth of runs {start, count}, 64-bit
 * little-endian numbers, which is complete even if the process dies. An instruction that faulted is removed again. The
 * raw form keeps it, and has a record {pc, 1} for each instruction, like QEMU's own log with -singlestep.
 */
#ifndef CSIGHT_EMU_TRUTH_H
#define CSIGHT_EMU_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/emu/qemu.h"

void truth_open(const char *dir, bool raw);

/* Called at translation, before any other callback of the block is registered. */
void truth_instrument(struct qemu_plugin_tb *tb, uint64_t base);

/* Called for rt_sigaction, with the guest's struct sigaction. */
void truth_action(uint64_t base, uint64_t action);

/* True if pc is a handler installed by rt_sigaction. */
bool truth_handler(uint64_t pc);

/* Appends a record to this thread's PID.TID.SERIAL.stacks (lib/emu/stacks.h), for the caller to fill in. */
void *truth_stack_record(unsigned vcpu, size_t size);

/* Returns the number of instructions in the log of this thread. */
uint64_t truth_count(unsigned vcpu);

/* Returns the path of this thread's files, without their suffixes; NULL: it has none. */
const char *truth_path(unsigned vcpu);

/* Records that the instructions from number `from` up to now ran while frozen, as {from, to} in PID.TID.SERIAL.gaps. */
void truth_log_gap(unsigned vcpu, uint64_t from);

/* Called where a signal kills this thread at pc: takes back the last instruction if it caused the signal. */
void truth_died(unsigned vcpu, uint64_t pc);

void truth_thread_ended(unsigned vcpu);

/* Called in the child of a fork, whose threads get new files. */
void truth_after_fork(void);

#endif
