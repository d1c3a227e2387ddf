/* SPDX-License-Identifier: MIT */
/* Common macros and small functions: cleanup attributes, bounds, clocks. */
#ifndef CSIGHT_UTIL_H
#define CSIGHT_UTIL_H

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* The structure of this type of which *pointer is the member of this name. */
#define container_of(pointer, type, member)                                 \
	({                                                                  \
		__typeof__(((type *)0)->member) *member_ = (pointer);       \
		(type *)(void *)((char *)member_ - offsetof(type, member)); \
	})
#define ALIGN8(n) (((n) + 7) & ~(uint64_t)7)

#define _cleanup_(fn) __attribute__((cleanup(fn)))
/* Keeps a cold function out of its hot caller. */
#define _apart_ __attribute__((noinline))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* Closes the descriptor if it is open, preserves errno, and sets *fd to -1. */
static inline void closep(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		close(*fd);
		errno = saved;
	}
	*fd = -1;
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_fclose_ _cleanup_(fclosep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_closedir_ _cleanup_(closedirp)

/* Transfers ownership: evaluates to the value and sets the variable to NULL or -1, which its cleanup ignores. */
#define TAKE_PTR(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
#define TAKE_FD(fd)                \
	({                         \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})

static inline uint64_t add_saturating(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Reads both clocks at nearly the same moment: the best of five attempts, by the time that passed within one. */
static inline void now_both(uint64_t *ret_realtime, uint64_t *ret_monotonic)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = now_ns(CLOCK_MONOTONIC), real = now_ns(CLOCK_REALTIME),
			 after = now_ns(CLOCK_MONOTONIC);

		if (after - before >= least)
			continue;
		least = after - before;
		*ret_realtime = real;
		*ret_monotonic = before + least / 2;
	}
}

#endif
