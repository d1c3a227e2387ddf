/* SPDX-License-Identifier: MIT */
/*
 * Recognizes hits of breakpoints that the kernel reports twice. Where a signal is delivered to a thread at a
 * breakpoint, the thread has not executed the instruction, and has another hit there when the signal's handler has
 * returned. The second one has the registers of the first, with which the signal was delivered in between. It may be in
 * another thread, if a scheduler in the program has moved the interrupted stack there, as that of Go does.
 *
 * A handler that leaves by longjmp() does not return. What it left is forgotten when the thread is at another place
 * with the same stack pointer, when it ends, or when too many others are remembered. Not thread-safe.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_WATCH_REPEATS_H
#define CSIGHT_DAEMON_CAPTURE_WATCH_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATCH_REPEATS_MAX = 1024 };

/*
 * A thread that executes a loop is at one place with one stack pointer again and again. Other registers distinguish
 * these hits: those of the first arguments, and some that calls preserve.
 */
enum watch_register {
	WATCH_SP,
	WATCH_LR,
	WATCH_PC,
	WATCH_GOROUTINE, /* x28: the struct g of Go */
	WATCH_OTHERS,
	WATCH_REGISTERS = WATCH_OTHERS + 4
};

struct watch_registers {
	uint64_t values[WATCH_REGISTERS];
};

struct watch_repeat;

struct watch_repeats {
	struct watch_repeat *list; /* the last hit of each thread, and those at which signals were delivered; by age */
	size_t n, room;
};

void watch_repeats_done(struct watch_repeats *r);

/* Returns true if the hit of a thread is one that it has had before. */
bool watch_repeats_hit(struct watch_repeats *r, uint32_t tid, const struct watch_registers *at);

/* Records that a handler gets a signal: the kernel may report the interrupted hit again. */
void watch_repeats_deliver(struct watch_repeats *r, uint32_t tid, const struct watch_registers *at);

/* Forgets a thread, or with tid 0 all. */
void watch_repeats_drop(struct watch_repeats *r, uint32_t tid);

#endif
