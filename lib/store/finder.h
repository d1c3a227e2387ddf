/* SPDX-License-Identifier: MIT */
/* Finds calls in a store: those of some functions, in an interval of time, of a thread. */
#ifndef CSIGHT_STORE_FINDER_H
#define CSIGHT_STORE_FINDER_H

#include "lib/store/store.h"

#define STORE_NO_CALLER UINT32_MAX

struct store_finder_options {
	const uint8_t *wanted; /* a byte for each function, not 0 where it is wanted; outlives the finder; NULL: all */
	int64_t tid;           /* -1: all threads */
	uint64_t since, until; /* calls that are open between these times; until 0: to the end */
	uint64_t least_ns;     /* of their duration */
	bool outermost;        /* only calls that no other wanted call is around */
};

/*
 * That of an inlined function may be in several pieces, with instructions of others in between: frame is the first one,
 * left how the last one ended, and the figures are sums.
 */
struct store_found_call {
	size_t thread; /* index */
	struct store_frame frame;
	uint64_t end; /* time */
	uint64_t ns, bound, instructions;
	uint64_t waited_ns; /* in which the thread did not run */
	uint32_t depth;
	uint32_t caller; /* the number of a function, or STORE_NO_CALLER */
	uint8_t left;    /* enum leave_kind */
	bool whole;
};

struct store_finder;

/* The store must outlive the finder. -ENOMEM. */
int store_finder_new(const struct store *s, const struct store_finder_options *options, struct store_finder **ret);
struct store_finder *store_finder_free(struct store_finder *f);

static inline void store_finder_freep(struct store_finder **f)
{
	store_finder_free(*f);
}

/*
 * Returns 1 with a call, or 0 at the end: thread by thread, as calls end; that of an inlined function when no further
 * piece can follow, which with outermost is before the next call. Errors as of iterators.
 */
int store_finder_next(struct store_finder *f, struct store_found_call *ret);

#endif
