/*
 * The truth log: what executed, by a callback before each instruction, with no code in common with the encoder but how
 * a register is read. One file a thread, PID.TID.SERIAL.truth, of runs {start, count} of 64-bit little-endian numbers;
 * it survives any end of the process. An instruction that faulted is taken back. raw: it is not, and each record is one
 * instruction {pc, 1}, as QEMU's own log with -singlestep has it.
 */
#ifndef CSIGHT_EMU_TRUTH_H
#define CSIGHT_EMU_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/emu/qemu.h"

void truth_open(const char *dir, bool raw);

/* At translation, before any other callback of the block is registered. */
void truth_instrument(struct qemu_plugin_tb *tb, uint64_t base);

/* rt_sigaction, seen by the system call callback. */
void truth_action(uint64_t base, uint64_t action);

/* Whether pc is a handler that rt_sigaction was told of. */
bool truth_handler(uint64_t pc);

/* Room for a record of this thread's PID.TID.SERIAL.stacks (lib/emu/stacks.h). */
void *truth_stack_record(unsigned vcpu, size_t size);

/* How many instructions the log of this thread holds. */
uint64_t truth_count(unsigned vcpu);

/* This thread's files, without their ends; NULL: it has none. */
const char *truth_path(unsigned vcpu);

/* Instructions from number `from` up to now ran while the thread was frozen; noted as {from, to} in
 * PID.TID.SERIAL.gaps. */
void truth_gap(unsigned vcpu, uint64_t from);

void truth_thread_ended(unsigned vcpu);

/* In the child of a fork: files of its own from here on. */
void truth_forked(void);

#endif
