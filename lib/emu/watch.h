/* SPDX-License-Identifier: MIT */
/*
 * Watch points (ring.h): the emulator's side of triggers. Only blocks that hold a watched address are instrumented,
 * when QEMU translates them; a list that arrives later discards the translations of its addresses, so that they are
 * made again. While no watched call is open, a block pays for nothing but the test of traced_thread.watching.
 *
 * A call that is watched is open from its entry until control reaches its return address with the stack pointer of the
 * entry, which includes the functions that it left to by tail calls; until an exception or longjmp() leaves it, which
 * is seen at the branch that raises the stack pointer; or until its thread ends. If that branch leads to another stack,
 * as that of another coroutine, the duration is unknown. Of calls on a stack that the thread
 * has left (signal stacks) nothing is concluded before it is back. Calls of Go: lib/emu/watch-goroutines.h.
 */
#ifndef CSIGHT_EMU_WATCH_H
#define CSIGHT_EMU_WATCH_H

#include "lib/emu/qemu.h"
#include "lib/emu/tracing.h"

/* Called once the shared memory exists. */
void watch_begin(void);

/* Reads the daemon's list if it has changed. Called by a thread between blocks, without the lock. */
void watch_update(void);

/*
 * Drops the list of watches, and the open calls of the thread, in the child of a fork: the child's own shared memory
 * has no list yet. t: or NULL.
 */
void watch_forked(struct traced_thread *t);

/*
 * Instruments a block that is being translated, if it holds a watched address. Returns the function that QEMU must call
 * before the block instead of tracing_block(), with *ret_data. The caller holds the lock.
 */
qemu_plugin_vcpu_udata_cb_t watch_instrument(struct qemu_plugin_tb *tb, struct traced_block *b, void **ret_data);

/* Follows a thread in which watched calls are open from a block to address, and ends the calls that it has left. */
void watch_step(struct traced_thread *t, const struct traced_block *before, uint64_t address);

/* Handles the return of the thread from a system call that took ns, for off_ns of which the thread was off the CPU. */
void watch_syscall(struct traced_thread *t, int64_t number, uint64_t ns, uint64_t off_ns);

/* Records that the thread has set the stack of its signal handlers. */
void watch_signal_stack(struct traced_thread *t, uint64_t address);

/* Handles a signal that is delivered to the thread. ends: it ends the program. */
void watch_signal(struct traced_thread *t, unsigned number, bool ends);

/* Ends the watched calls of a thread that ends, in a system call or by a signal. */
void watch_thread_ends(struct traced_thread *t);

/* Frees what belongs to the thread. */
void watch_thread_done(struct traced_thread *t);

#endif
