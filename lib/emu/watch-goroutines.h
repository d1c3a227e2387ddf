/* SPDX-License-Identifier: MIT */
/*
 * Watched calls of functions of Go (EMU_WATCH_GO_CALL) belong to the goroutine, whose struct g is in x28, not to the
 * thread. The stack pointer is compared by its distance from the high end of the goroutine's stack, since Go copies
 * stacks to other addresses when they grow. A call is open until control reaches its return address with the stack
 * pointer of its entry; until the stack pointer is above that, after a panic that was recovered; or until another
 * goroutine begins in the same struct g: then the former one has ended in the call by runtime.Goexit(), and its
 * duration is unknown.
 *
 * A goroutine has a clock: that of the thread that runs it, plus an offset which makes it continuous where another
 * thread resumes it. In between, it advances by the real time since the former thread last advanced its clock, or was
 * seen to run another goroutine.
 *
 * While such calls are open, all threads are followed. Threads call this for themselves, without the lock of tracing.
 */
#ifndef CSIGHT_EMU_WATCH_GOROUTINES_H
#define CSIGHT_EMU_WATCH_GOROUTINES_H

#include "lib/emu/tracing.h"

/* A watch, and the address and size of its function. */
struct watch_goroutines_place {
	uint32_t watch, serial;
	uint64_t address, size;
};

/* The end of a call. */
struct watch_goroutines_end {
	uint32_t watch, serial;
	enum emu_hit_how how;
	bool known; /* the duration, ns */
	uint64_t ns;
};

/*
 * The thread is at the beginning of a function, or at an address. Returns true with a call that has ended there, as
 * long as there is one. step: after a block; before: NULL if that is unknown.
 */
bool watch_goroutines_left(struct traced_thread *t, const struct watch_goroutines_place *p,
			   struct watch_goroutines_end *ret);
bool watch_goroutines_step(struct traced_thread *t, const struct traced_block *before, uint64_t address,
			   struct watch_goroutines_end *ret);

/* A call begins. Returns false if it cannot be followed. */
bool watch_goroutines_enter(struct traced_thread *t, const struct watch_goroutines_place *p);

/* The thread ends, or has ended: as above, with the calls of the goroutine that ends the program. */
bool watch_goroutines_thread_ends(struct traced_thread *t, struct watch_goroutines_end *ret);
void watch_goroutines_thread_done(const struct traced_thread *t);

/* Called around a fork, by its thread: no other one changes the calls meanwhile. */
void watch_goroutines_before_fork(void);
void watch_goroutines_after_fork(void);

/* Drops all calls, in the child of a fork. */
void watch_goroutines_forked(void);

#endif
