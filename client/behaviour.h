/* SPDX-License-Identifier: MIT */
/* How the functions of one trace behave: what a call costs and calls, by batches of consecutive calls. */
#ifndef CSIGHT_CLIENT_BEHAVIOUR_H
#define CSIGHT_CLIENT_BEHAVIOUR_H

#include "client/spread.h"
#include "lib/base/hash.h"
#include "lib/base/texts.h"
#include "lib/store/histogram.h"
#include "lib/store/store.h"

/*
 * Whether a thread has to wait depends on others: calls in which it neither waited nor made the system call futex are
 * also counted by themselves.
 */
enum behaviour_set { BEHAVIOUR_ALL, BEHAVIOUR_UNWAITED, BEHAVIOUR_SETS };

/* Whole calls, by batch: number, time and instructions in the function itself, largest error of a time */
struct behaviour_batches {
	uint64_t whole;
	uint64_t n[SPREAD_BATCHES], ns[SPREAD_BATCHES], instructions[SPREAD_BATCHES], bounds[SPREAD_BATCHES];
};

/* All functions of one name in one file, at whatever addresses. */
struct behaviour_function {
	const char *name, *image; /* of the store; image: without the directory */
	bool inlined;
	bool waits;        /* not a function: the time of a system call */
	bool synchronises; /* makes the system call futex itself: what it does depends on other threads */
	uint64_t begun;    /* calls traced from their beginning */
	uint64_t open;     /* frames of the thread that is being read */
	uint64_t calls;    /* by the store's totals */
	uint64_t whole;
	uint64_t made; /* calls that whole calls of this function made */
	uint64_t total_ns, self_ns, longest_ns, self_instructions;
	struct behaviour_batches sets[BEHAVIOUR_SETS];
	uint64_t whole_instructions;   /* with callees */
	struct histogram times, costs; /* duration and instructions of whole calls, with callees */
};

/* Calls of one function by another, in whole calls of that. */
struct behaviour_edge {
	uint32_t caller, callee;
	uint64_t calls;
	uint32_t n[BEHAVIOUR_SETS][SPREAD_BATCHES]; /* by set and batch of the caller */
	size_t counted;                             /* index of the pending count of the open call */
};

struct behaviour {
	struct behaviour_function *functions;
	size_t n_functions, cap_functions;
	struct behaviour_edge *edges;
	size_t n_edges, cap_edges;
	uint64_t ns, instructions; /* of all threads; ns: without system calls */
	uint64_t first, last;      /* times of the first and the last event */
	/* Look-up, and the number of the function for each of the store's */
	struct texts keys;
	struct hash by_key, by_edge;
	uint32_t *numbers;
};

/* Reads all events of a store, which must outlive *ret. -ENOMEM, -EBADMSG; free it with behaviour_done() even then. */
int behaviour_read(const struct store *s, struct behaviour *ret);
void behaviour_done(struct behaviour *b);

/* Finds a function by its key, name and image without version, or NULL. */
const struct behaviour_function *behaviour_find(struct behaviour *b, const struct behaviour_function *like);

/* Finds the calls of one function by another, or NULL. */
const struct behaviour_edge *behaviour_find_edge(const struct behaviour *b, size_t caller, size_t callee);

#endif
