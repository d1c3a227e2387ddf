/* SPDX-License-Identifier: MIT */
/*
 * The intervals in which threads belonged to the target, from snapshot.json. Times are ns of the records' clock; bounds
 * are inclusive.
 */
#ifndef CSIGHT_DECODE_INTERVALS_H
#define CSIGHT_DECODE_INTERVALS_H

#include "lib/base/json.h"

struct intervals;

/* Parses an array of {"tid", "from", "to"}; NULL is an empty one. Returns -EBADMSG for an invalid array. */
int intervals_new(json_object *list, struct intervals **ret);
struct intervals *intervals_free(struct intervals *i);

/* True if the thread has any interval. */
bool intervals_have(const struct intervals *i, uint32_t tid);

/* True if one interval of the thread contains both times and all between them. */
bool intervals_contain(const struct intervals *i, uint32_t tid, uint64_t from, uint64_t to);

#endif
