/* SPDX-License-Identifier: MIT */
/*
 * Which thread ran on which CPU, from the kernel's context-switch records. Immutable after creation. Times are ns of
 * the records' clock; bounds are inclusive.
 */
#ifndef CSIGHT_DECODE_SCHEDULE_H
#define CSIGHT_DECODE_SCHEDULE_H

#include "lib/perfdata/read.h"

struct schedule;

/* An interval in which a thread ran on a CPU; tid UINT32_MAX: any thread, as records were lost. */
struct schedule_run {
	uint32_t tid;
	uint64_t from, to;
};

int schedule_new(const struct pd_contents *contents, struct schedule **ret);
struct schedule *schedule_free(struct schedule *sched);

/*
 * Finds the thread that ran on the CPU during the whole interval. Returns false if it is unknown, or if there were
 * several. *ret_pid is UINT32_MAX if the process is unknown.
 */
bool schedule_only_thread(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid,
			  uint32_t *ret_pid);

/*
 * Finds the only thread that ran on the CPU at any time of the interval, if no other can have: where records show all
 * threads that are traced. Returns false if there were several, or none.
 */
bool schedule_only_run(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid,
		       uint32_t *ret_pid);

/*
 * Narrows the interval in which a thread executed something on the CPU: to the lifetime of the thread and to the one
 * time that it ran there, as far as records give them.
 */
void schedule_narrow(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t *from, uint64_t *to);

/*
 * Finds the first run of a thread on the CPU that overlaps an interval; its end is 0 if records lack it. Returns false
 * if no record shows one.
 */
bool schedule_first(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to,
		    struct schedule_run *ret);

/* True if the thread ended after `from`, and another one began with its number up to `to`. */
bool schedule_reused(const struct schedule *sched, uint32_t tid, uint64_t from, uint64_t to);

/* True if the thread ran on another CPU within the interval, or may have, as records of it were lost. */
bool schedule_elsewhere(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to);

/*
 * Lists the runs of all threads on the CPU that overlap an interval, one in each call; *at is 0 before the first one.
 * Returns false at the end.
 */
bool schedule_next(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, size_t *at,
		   struct schedule_run *ret);

/* Returns false if no record shows when a thread did not run. */
bool schedule_has_switches(const struct schedule *sched);

/* An interval in which a thread did not run. */
struct schedule_pause {
	uint64_t from, to;
	bool preempted; /* the thread could have run, but had no CPU */
};

/* Finds the first pause of a thread that overlaps an interval. Returns false if no record shows one. */
bool schedule_pause(const struct schedule *sched, uint32_t tid, uint64_t from, uint64_t to, struct schedule_pause *ret);

/* True if the thread ran within an interval on a CPU that has no trace unit in the file. */
bool schedule_untraced(const struct schedule *sched, uint32_t tid, uint64_t from, uint64_t to);

/* True if records of some CPU were lost within an interval. */
bool schedule_lost_between(const struct schedule *sched, uint64_t from, uint64_t to);

/* Returns the last time in (after, until] at which tracing was started on the CPU; 0 if no record shows one. */
uint64_t schedule_trace_start(const struct schedule *sched, uint32_t cpu, uint64_t after, uint64_t until);

#endif
