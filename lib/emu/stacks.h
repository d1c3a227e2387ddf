/* SPDX-License-Identifier: MIT */
/*
 * The stack log: a thread's stack pointer and link register at each discontinuity of control flow. It is a part of the
 * truth log, for tests. It holds only machine registers; its reader (tests/calls/stacks-truth.c) decides which of these
 * steps are calls, returns and jumps. Each thread has a file PID.TID.SERIAL.stacks of struct stack_record, which ends
 * at a record of zeros or at the end of the file.
 */
#ifndef CSIGHT_EMU_STACKS_H
#define CSIGHT_EMU_STACKS_H

#include <stdbool.h>
#include <stdint.h>

/* How control reached pc. */
enum stack_how {
	STACK_NONE,
	STACK_START,     /* the thread begins */
	STACK_FORKED,    /* the process begins: PID.TID.SERIAL pc.sp.lr is its parent's log, whose first g records it
			    shares */
	STACK_FLOW,      /* reached from the previous instruction, without a branch */
	STACK_JUMP,      /* reached by a direct branch without link, taken or not */
	STACK_INDIRECT,  /* reached by an indirect branch without link */
	STACK_CALL,      /* reached by a branch with link */
	STACK_SYSCALL,   /* return from a system call other than rt_sigreturn */
	STACK_SIGRETURN, /* return from rt_sigreturn */
	STACK_SIGNAL,    /* the entry of a signal handler */
};

/* 48 bytes, little-endian. */
struct stack_record {
	uint64_t count; /* instructions that the thread had executed */
	uint64_t pc, sp, lr;
	uint64_t g; /* x28, where Go keeps the goroutine */
	uint32_t how;
	uint32_t interrupted; /* control reached pc, but a signal handler ran before the instruction at pc */
};

#ifdef CSIGHT_EMU_STACKS_WRITER
#include "lib/emu/qemu.h"

/* Called at translation, after truth_instrument(). */
void stacks_instrument(struct qemu_plugin_tb *tb, uint64_t base);

/* Called for each system call, by its thread. */
void stacks_syscall(int64_t number);

/* Called in the child of a fork, before truth_after_fork(). */
void stacks_forked(unsigned vcpu);
#endif

#endif
