/* SPDX-License-Identifier: MIT */
/*
 * What csightd counts from its start on, for all users together: the counters of `csight status --metrics`. They are
 * for administrators, since they show what others do. On the loop's thread; NULL counters count nothing.
 */
#ifndef CSIGHT_DAEMON_COUNTERS_H
#define CSIGHT_DAEMON_COUNTERS_H

#include "daemon/ledger.h"
#include "lib/base/json.h"

enum { COUNTERS_BUCKETS = 6 };

/* Durations: how many are at most as long as each bound (counters.c), and longer than the last one. */
struct counters_wait {
	uint64_t n[COUNTERS_BUCKETS + 1], sum_ns;
};

struct counters {
	uint64_t taken, failed;                /* snapshots: written to the spool, and failed */
	uint64_t ready, raw;                   /* decodes, by the state that they led to */
	uint64_t blind_ns;                     /* time without tracing, while rings were copied */
	struct counters_wait copy;             /* from a request to the copy of its rings */
	struct counters_wait decode;           /* from the queue to the begin of an attempt */
	uint64_t denied, limits[LEDGER_KINDS]; /* refusals: for the lack of a right, and by each limit */
};

/* Counts a wait that began at a time of CLOCK_MONOTONIC and ends now. */
void counters_add_wait(struct counters_wait *w, uint64_t since_ns);

/* Returns a new object: Counters of org.csight. */
json_object *counters_json(const struct counters *c);

#endif
