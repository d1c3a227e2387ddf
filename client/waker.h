/* SPDX-License-Identifier: MIT */
/* Who ended a wait: the thread that made the last call of the same kind before it. */
#ifndef CSIGHT_CLIENT_WAKER_H
#define CSIGHT_CLIENT_WAKER_H

#include "lib/store/store.h"

struct wait_interval {
	uint64_t from, to;
	uint32_t thread;
	uint32_t syscall; /* function of the system call that waited */
};

struct waker {
	uint32_t thread;
	uint32_t function; /* the program's own one that made the call, or the best known */
	uint64_t time;
};

/*
 * Finds the thread that probably ended a wait for a futex: the one whose futex call is the last of all other threads
 * within the wait; or before its end, if threads have clocks of their own. The trace has no addresses of futexes, so it
 * may be another one. is_library: by function.
 * -ENOENT: there is none, or the wait was for something else; other errors as of iterators.
 */
int waker_find(const struct store *s, const uint8_t *is_library, const struct wait_interval *wait, struct waker *ret);

#endif
