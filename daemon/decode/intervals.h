/* The intervals in which threads belonged to the target, from snapshot.json. Times are ns of the records' clock, bounds
 * are inclusive. */
#ifndef CSIGHT_DECODE_INTERVALS_H
#define CSIGHT_DECODE_INTERVALS_H

#include "lib/base/json.h"

/* When threads were the target's: a list of {"tid", "from", "to"}. -EBADMSG. */
struct intervals;
int intervals_new(json_object *list, struct intervals **ret);
struct intervals *intervals_free(struct intervals *i);

/* All of it, from one time to the other, lies within an interval of that thread. */
bool intervals_contain(const struct intervals *i, uint32_t tid, uint64_t from, uint64_t to);

#endif
