/*
 * Who ran where, when: what the kernel's records say of each CPU, and when which thread's trace may be shown. Filled
 * once, then asked; times are ns of the records' clock, bounds are inclusive.
 */
#ifndef CSIGHT_DECODE_RUNS_H
#define CSIGHT_DECODE_RUNS_H

#include "lib/base/json.h"
#include "lib/perfdata/read.h"

struct runs;

int runs_new(const struct pd_contents *contents, struct runs **ret);
struct runs *runs_free(struct runs *r);

/* The one thread that ran there all the time; false: it is not known, or there were several. pid may be UINT32_MAX. */
bool runs_alone(const struct runs *r, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid, uint32_t *ret_pid);

/*
 * Something of a thread was executed there between two times: makes them narrower, as far as it is told when it came
 * and went, when it was born and when it ended.
 */
void runs_narrow(const struct runs *r, uint32_t cpu, uint32_t tid, uint64_t *from, uint64_t *to);

/* The first time that it was there between the two; false: nobody says so. */
bool runs_first(const struct runs *r, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to, uint64_t *ret_from,
		uint64_t *ret_to);

/* When tracing was last begun there in (after, until]; 0: nobody says so. */
uint64_t runs_begun(const struct runs *r, uint32_t cpu, uint64_t after, uint64_t until);

/* When threads were the target's: a list of {"tid", "from", "to"}. -EBADMSG. */
struct intervals;
int intervals_new(json_object *list, struct intervals **ret);
struct intervals *intervals_free(struct intervals *i);

/* All of it, from one time to the other, lies within an interval of that thread. */
bool intervals_hold(const struct intervals *i, uint32_t tid, uint64_t from, uint64_t to);

#endif
