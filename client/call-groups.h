/* SPDX-License-Identifier: MIT */
/* Calls of a function in groups of the same shape: by which functions ran beneath, and about how often. */
#ifndef CSIGHT_CLIENT_CALL_GROUPS_H
#define CSIGHT_CLIENT_CALL_GROUPS_H

#include "client/call-list.h"
#include "lib/base/hash.h"
#include "lib/store/histogram.h"

/* Calls of more shapes are in the last group. */
enum { CALL_GROUPS_MAX = 1024 };

/* A function beneath a call. */
struct group_function {
	uint32_t function;
	uint32_t level; /* the least depth at which it was called */
	uint64_t calls;
};

struct call_group {
	uint64_t calls, value; /* value: sum of time or instructions */
	struct histogram values;
	struct store_call first, slowest;
	struct group_function *functions; /* beneath the first call, by number of the function */
	size_t n_functions;
	bool mixed; /* of several shapes */
};

struct call_groups {
	const struct call_list *list;
	struct call_group *groups; /* most time first */
	size_t n, cap;
	uint64_t calls, value;
	struct hash by_shape;
};

/* Groups the calls of a list, which must outlive *g. Errors as of store_calls_read(); free it even then. */
int call_groups_read(struct call_groups *g, const struct call_list *list);
void call_groups_done(struct call_groups *g);

/* Returns the group with most calls; there must be one. */
const struct call_group *call_groups_usual(const struct call_groups *g);

/* How a function distinguishes two groups; a count of 0: it did not run. */
struct group_difference {
	uint32_t function;
	uint64_t calls, usual_calls;
};

/*
 * Finds the functions whose numbers of calls differ between a group and the usual one; at most n, those first that say
 * most: the program's own, and those called by few others. Returns how many there are.
 */
size_t call_groups_compare(const struct call_groups *g, const struct call_group *group, struct group_difference *ret,
			   size_t n);

#endif
