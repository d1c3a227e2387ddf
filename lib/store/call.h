/* SPDX-License-Identifier: MIT */
/* Single calls of a store: the events within one, and stores that are made of some. */
#ifndef CSIGHT_STORE_CALL_H
#define CSIGHT_STORE_CALL_H

#include "lib/store/store.h"

/*
 * A call that no other call of the same functions is around. That of an inlined function may be in several pieces, with
 * instructions of others in between.
 */
struct store_call {
	uint64_t enter, end;   /* time; end of the last piece */
	uint64_t begin;        /* instructions of the thread when it was entered */
	uint64_t instructions; /* executed in it */
	uint64_t ns;           /* sum of its pieces */
	uint32_t thread;
	bool whole; /* traced from enter to leave */
};

/*
 * Receives the events within a call, in order; depth 0 is the frame of the call itself, which is entered again at each
 * further piece. Depths in *e are those of the thread.
 */
struct store_call_sink {
	int (*event)(void *user, const struct store_event *e, uint32_t depth);
	void *user;
};

/*
 * Reads the events of a call. roots has a byte for each function, not 0 where a call of it is one of those. -ENOENT:
 * there is no such call. A negative return of the sink ends the reading and is returned.
 */
int store_call_read(const struct store *s, const uint8_t *roots, const struct store_call *call,
		    const struct store_call_sink *sink);

/* Receives the events within several calls, and the end of each. */
struct store_calls_sink {
	int (*event)(void *user, const struct store_event *e, uint32_t depth);
	int (*end)(void *user, const struct store_call *call);
	void *user;
};

/* Reads n calls of one thread, which are in order of time, in one pass. Errors as above. */
int store_calls_read(const struct store *s, const uint8_t *roots, const struct store_call *calls, size_t n,
		     const struct store_calls_sink *sink);

/* Calls as threads of another store, each from time 0 on. */
struct store_extract {
	const uint8_t *roots; /* as above */
	const struct store_call *calls;
	const char *const *names; /* of the threads */
	size_t n;
};

/* Writes a store of single calls to an empty file. Thread IDs count from 1. */
int store_extract_calls(const struct store *s, int to, const struct store_extract *from);

#endif
