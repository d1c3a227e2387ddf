/* SPDX-License-Identifier: MIT */
/* All calls of a function: how long each took, which are typical, and which stand out. */
#ifndef CSIGHT_CLIENT_CALL_LIST_H
#define CSIGHT_CLIENT_CALL_LIST_H

#include "lib/store/call.h"

enum measure { MEASURE_TIME, MEASURE_INSTRUCTIONS };

/*
 * Recursive calls belong to the outermost one. Of more than CALL_LIST_MAX calls only every nth is listed, and the
 * slowest one.
 */
enum { CALL_LIST_MAX = 2 << 20, CALL_LIST_PARTS_MAX = 1 << 16 };

struct call_list {
	const struct store *store;
	const uint8_t *roots; /* by function: whether it is the function */
	enum measure measure;
	struct store_call *calls; /* whole calls, thread by thread in order of time */
	size_t n, cap;
	uint64_t whole;           /* of which the list has every nth */
	struct store_call *parts; /* calls that the trace has only a part of: the first CALL_LIST_PARTS_MAX */
	size_t n_parts, cap_parts;
	uint64_t incomplete;
	size_t cut_thread;  /* one plus the number of the thread whose last part a gap ended; 0: none */
	uint64_t suspended; /* of those: calls whose stack the thread left; they may have gone on in another thread */
	struct store_call slowest;
	uint64_t *sorted; /* values of the list */
};

/* Lists the calls in a store, which must outlive the list. Errors as of iterators; free it even then. */
int call_list_read(struct call_list *l, const struct store *s, const uint8_t *roots, enum measure measure);
void call_list_done(struct call_list *l);

static inline uint64_t call_list_value(const struct call_list *l, const struct store_call *call)
{
	return l->measure == MEASURE_TIME ? call->ns : call->instructions;
}

/* Returns the value that this share of the calls does not exceed; there must be some. */
uint64_t call_list_quantile(const struct call_list *l, double share);

/*
 * Returns true if a value stands out: between the median and it there is a step that is larger than all others
 * together, on the linear or the logarithmic scale; or it is far beyond what nine of ten calls do not exceed.
 */
bool call_list_stands_out(const struct call_list *l, uint64_t value);

/* Finds the call that covers a time, or else the first one that begins later; incomplete ones too. NULL: none. */
const struct store_call *call_list_at(const struct call_list *l, uint64_t time);

/*
 * Finds the call to compare others with: of those nearest to the median, the one whose numbers of calls of other
 * functions are nearest to those of the others. except: a call that it must not be. -ENOENT: there is no other.
 */
int call_list_typical(const struct call_list *l, const struct store_call *except, struct store_call *ret);

#endif
