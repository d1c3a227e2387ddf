/* SPDX-License-Identifier: MIT */
/*
 * The calls of watched functions and system calls that are open, by what probes report: entries, and instructions at
 * which a call may end. A call ends where the stack pointer and the return address are those of its entry. One that an
 * exception or longjmp() has left never does: it is dropped when an outer call ends, or when another is entered at its
 * place, and its duration is unknown. Not thread-safe.
 *
 * Calls of Go belong to a goroutine, which may be in another thread at the end, and whose stack may have moved since
 * the entry: then the return address must be that of one open call alone, else the duration of the innermost is
 * unknown.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_WATCH_CALLS_H
#define CSIGHT_DAEMON_CAPTURE_WATCH_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATCH_CALLS_MAX = 8192 };

/*
 * Where a thread is: at the entry of a place, or where calls of it may end. For a system call sp and lr are 0.
 * goroutine: the address of struct g, if the place is of Go, else 0.
 */
struct watch_moment {
	uint32_t slot, tid;
	uint64_t goroutine, sp, lr, time;
};

struct watch_calls {
	struct watch_moment *list; /* open ones, in order of entry */
	size_t n, room;
};

void watch_calls_done(struct watch_calls *c);

/* Returns how many calls of the slot turn out to be of unknown duration. */
unsigned watch_calls_enter(struct watch_calls *c, const struct watch_moment *at);

/* Returns true if a call ends here, with its duration; *ret_unknown as above. */
bool watch_calls_leave(struct watch_calls *c, const struct watch_moment *at, uint64_t *ret_ns, unsigned *ret_unknown);

/* Calls fn for each call that belongs to a thread, or with tid 0 of all, and drops it. */
void watch_calls_drop(struct watch_calls *c, uint32_t tid, void (*fn)(void *data, uint32_t slot), void *data);

#endif
