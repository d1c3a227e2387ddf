/* SPDX-License-Identifier: MIT */
/*
 * A thread that is traced: QEMU calls tracing_block() before each block. The start of the block is the outcome of the
 * previous one, which is then retired: the encoder emits the packets that hardware would have written.
 *
 * The functions are called by the thread itself, or for its slot, its name and the code log, under the lock.
 */
#ifndef CSIGHT_EMU_TRACING_H
#define CSIGHT_EMU_TRACING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/util.h"
#include "lib/emu/codelog.h"
#include "lib/emu/etm-encode.h"
#include "lib/emu/shared.h"
#include "lib/emu/signals.h"
#include "lib/emu/thread-clock.h"

struct traced_block {
	uint64_t start, end, target;
	uint32_t count;
	uint8_t kind;
	bool link;
	bool returns; /* A64_INDIRECT: RET, not BR or BLR */
};

struct traced_thread {
	struct etm etm;
	struct emu_slot *slot;           /* NULL: no slot was free; the thread runs untraced */
	const struct traced_block *last; /* began and is not retired; NULL: tracing (re)starts at the next block */
	bool stopped;                    /* obeys a freeze, or has no slot */
	bool lost;                       /* counted in lost_threads */
	bool resumes;                    /* the next block begins where the kernel returned to */
	uint32_t seen, epoch;
	uint32_t period; /* blocks until the next timestamp */
	uint32_t tail;   /* instructions since the last packet that a decoder can walk to */
	uint64_t next_sync;
	uint64_t fill_end; /* the ring is full when head has reached it; UINT64_MAX in the mode ring */
	uint64_t instructions;
	uint64_t stopped_truth; /* traced instructions in the truth log at the last freeze */
	struct thread_clock clock;
	uint64_t entered;         /* time of the entry to the system call */
	struct clock_split split; /* of the time in it, if has_split: the call has returned, its end is untraced */
	bool has_split;
	bool watching;                       /* calls that are watched are open: watch_step() follows the thread */
	uint64_t goroutine;                  /* that it was last seen to run (lib/emu/watch-goroutines.h) */
	const struct traced_block *untraced; /* began last while stopped */
	struct watch_thread *watch;          /* NULL: no watched call has been open yet */
};

/* What all threads of the process share. */
struct tracing_process {
	struct shared_options options;
	uint16_t threshold; /* of cycles */
	uint64_t sync_bytes;
	uint32_t period_blocks;
	bool truth, stacks;
	struct shared shared;
	struct codelog *codelog;
	pthread_mutex_t lock;           /* slots, the code log, handlers, blocks */
	_Atomic uint64_t code_replaced; /* virtual time of the last record that replaces code */
	uint64_t base;                  /* offset of guest addresses in QEMU's address space */
	bool opened, untraced;
	_Atomic bool watching_syscalls, watching_signals;
	_Atomic bool following;       /* watch_step() follows all threads */
	char emulator[EMU_NAME_SIZE]; /* the name of QEMU's threads until the program sets one */
	_Atomic uint32_t *control_word;
};

extern struct tracing_process tracing;
extern __thread unsigned tracing_vcpu;
extern __thread struct traced_thread *tracing_thread; /* the calling one; NULL: it has not begun */

/* Called before each block; userdata: a struct traced_block. */
void tracing_block(unsigned vcpu, void *userdata);

/*
 * Returns the thread's time at the last instruction that a decoder finds in the trace written so far; by the wall
 * clock, the present time.
 */
uint64_t tracing_time(const struct traced_thread *t);

/* The thread's time at the end of its last instruction. */
static inline uint64_t tracing_now(const struct traced_thread *t)
{
	return tracing.options.clock == EMU_CLOCK_WALL ? now_ns(CLOCK_MONOTONIC) : t->clock.base + t->instructions;
}

/* True while the thread's time is unknown: the virtual clock stands still where a thread is not traced. */
static inline bool tracing_clock_stands(const struct traced_thread *t)
{
	return t->stopped && tracing.options.clock != EMU_CLOCK_WALL;
}

/* Sets the thread's clock forward to a time. */
void tracing_set_forward(struct traced_thread *t, uint64_t time);

/*
 * The time of a record of the code log. Threads whose clocks are slower are set forward to it before they execute
 * another block. The caller holds the lock.
 */
uint64_t tracing_code_time(bool replaces);

/* Updates the fields of the slot that the daemon may read at any time, after all trace is written out. */
void tracing_publish_all(struct traced_thread *t, unsigned vcpu);
void tracing_publish_lag(struct traced_thread *t, uint64_t time);

/* Assigns a slot; without a free one, the thread retries after the next thaw. The caller holds the lock. */
void tracing_take_slot(struct traced_thread *t);

/*
 * Emits the packets of a block that ran to its end and continued at next. Returns false, without any effect, if the
 * block cannot lead there.
 */
bool tracing_retire(struct traced_thread *t, const struct traced_block *b, uint64_t next);

/* The exception that a signal is in the trace. fetched: by an instruction of the last block. */
enum etm_exception tracing_exception_of(const struct delivery *d, bool fetched);

/* Emits an exception; a decoder can walk to it, so that a cycle count may follow. */
void tracing_end_in_exception(struct traced_thread *t, enum etm_exception type, uint64_t to);

#endif
