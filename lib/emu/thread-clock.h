/* SPDX-License-Identifier: MIT */
/*
 * The clocks of the traced threads. The wall clock is CLOCK_MONOTONIC. The virtual clock leaves out the emulator's own
 * work: it advances by a nanosecond for each executed instruction, and in a system call by the real time for which the
 * kernel blocked the thread, without the time that the thread then waited for a CPU. It begins at CLOCK_MONOTONIC.
 *
 * Virtual clocks of threads differ, but agree on the order of what system calls order: a call that may send something
 * publishes the time of its thread for the kernel object it acts on, and a call that may receive something sets the
 * clock of its thread forward to the time published for that object. Objects share entries of a table where that is
 * cheaper; a clock is then set forward further than necessary. Memory that threads share orders nothing.
 *
 * Each struct belongs to its thread. The table is shared with forked children.
 */
#ifndef CSIGHT_EMU_THREAD_CLOCK_H
#define CSIGHT_EMU_THREAD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct thread_clock {
	uint64_t base;    /* virtual time before the first instruction that the thread counts */
	uint64_t entered; /* CLOCK_MONOTONIC at the entry to the system call */
	/* At the last measurement: CLOCK_MONOTONIC, time used on CPUs, time waited for one. */
	uint64_t measured, used, waited;
};

/* What a system call did with its real time. */
struct clock_split {
	uint64_t ran, blocked, preempted;
};

/* Allocates the table. Called before the program starts. */
int thread_clock_init(void);

/* Called by the thread itself. The first thread of a process begins at CLOCK_MONOTONIC, another when it was created. */
void thread_clock_begin(struct thread_clock *c);

/* Called by the only thread of the child of a fork, in its system call. */
void thread_clock_forked(struct thread_clock *c);

/* Records that a signal ends the process, at a virtual time of the calling thread. */
void thread_clock_died(uint64_t time);

/* Records that the thread enters a system call, at a virtual time. */
void thread_clock_enter(struct thread_clock *c, int64_t number, const uint64_t args[6], uint64_t time);

struct syscall_return {
	int64_t number, result;
	const uint64_t *args; /* six */
};

/*
 * The thread returns from a system call that it entered at a virtual time: returns the virtual time, and sets *ret to
 * what became of the real time since.
 */
uint64_t thread_clock_return(struct thread_clock *c, const struct syscall_return *r, uint64_t time,
			     struct clock_split *ret);

/* Returns the time at which a signal is delivered to the thread, not before it was sent. */
uint64_t thread_clock_signalled(uint64_t time);

#endif
