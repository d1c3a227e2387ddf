/*
 * Who ran where, when: what the kernel's records say of each CPU, and when which thread's trace may be shown. Filled
 * once, then asked; times are ns of the records' clock, bounds are inclusive.
 */
#ifndef CSIGHT_DECODE_SCHEDULE_H
#define CSIGHT_DECODE_SCHEDULE_H

#include "lib/base/json.h"
#include "lib/perfdata/read.h"

struct schedule;

/* An interval in which a thread ran on a CPU. */
struct schedule_run {
	uint64_t from, to;
};

int schedule_new(const struct pd_contents *contents, struct schedule **ret);
struct schedule *schedule_free(struct schedule *sched);

/* The one thread that ran there all the time; false: it is not known, or there were several. pid may be UINT32_MAX. */
bool schedule_only_thread(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid,
			  uint32_t *ret_pid);

/*
 * Something of a thread was executed there between two times: makes them narrower, as far as it is told when it came
 * and went, when it was born and when it ended.
 */
void schedule_narrow(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t *from, uint64_t *to);

/* The first time that it was there between the two; false: nobody says so. */
bool schedule_first(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to,
		    struct schedule_run *ret);

/* When tracing was last begun there in (after, until]; 0: nobody says so. */
uint64_t schedule_trace_start(const struct schedule *sched, uint32_t cpu, uint64_t after, uint64_t until);

#endif
