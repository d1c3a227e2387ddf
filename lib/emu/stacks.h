/*
 * The log of stacks: where a thread's stack pointer and link register stood whenever control did not simply go on. It
 * is a part of the truth log, for tests, and as they are the machine's own registers, it knows nothing of functions:
 * which of these steps are calls, returns and jumps is for the reader to say (tests/calls/stacks-truth.c). One file a
 * thread, PID.TID.SERIAL.stacks, of struct stack_record; it ends at a record of zeros, or with the file.
 */
#ifndef CSIGHT_EMU_STACKS_H
#define CSIGHT_EMU_STACKS_H

#include <stdbool.h>
#include <stdint.h>

/* How control came to pc. */
enum stack_how {
	STACK_NONE,
	STACK_START,     /* the thread begins */
	STACK_FORKED,    /* the process begins: pc.sp.lr is its parent's log, of which g records are its own past */
	STACK_FLOW,      /* from the instruction before */
	STACK_JUMP,      /* by a branch that leaves no return address, or past it where it was not taken */
	STACK_INDIRECT,  /* by such a branch whose target a register had */
	STACK_CALL,      /* by one that does */
	STACK_SYSCALL,   /* back from a system call */
	STACK_SIGRETURN, /* of these, rt_sigreturn */
	STACK_SIGNAL,    /* a signal's handler begins */
};

/* 48 bytes, little-endian. */
struct stack_record {
	uint64_t count; /* instructions that the thread had executed */
	uint64_t pc, sp, lr;
	uint64_t g; /* x28, which Go has the goroutine in */
	uint32_t how;
	uint32_t interrupted; /* it stood there, and a signal's handler came first */
};

#ifdef CSIGHT_EMU_STACKS_WRITER
#include "lib/emu/qemu.h"

/* At translation, behind truth_instrument(). */
void stacks_instrument(struct qemu_plugin_tb *tb, uint64_t base);

/* Each system call, by the thread that does it. */
void stacks_syscall(int64_t number);

/* In the child of a fork, before the truth log is told of it. */
void stacks_forked(unsigned vcpu);
#endif

#endif
