/* SPDX-License-Identifier: MIT */
/*
 * Measures functions in a store. What is not known exactly is an interval: of times, by their error bounds; of numbers,
 * by gaps, in which any number of calls may have been. Memory use does not grow with the number of calls.
 */
#ifndef CSIGHT_CLIENT_MEASURE_H
#define CSIGHT_CLIENT_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/store/store.h"

enum measure_metric {
	MEASURE_CALLS,
	MEASURE_INSTRUCTIONS, /* in calls, with all that they call */
	MEASURE_TOTAL,        /* time in calls; recursive calls count once, as they do above */
	/* Of the calls that were traced from enter to leave: */
	MEASURE_MEAN,
	MEASURE_MIN,
	MEASURE_MEDIAN,
	MEASURE_P90,
	MEASURE_P95,
	MEASURE_P99,
	MEASURE_P999,
	MEASURE_MAX, /* a call that is not known from enter to leave lasted as long as it was traced, or longer */
};

#define MEASURE_METRICS "calls, instructions, total, mean, min, median, p90, p95, p99, p999 and max"

/* Finds a metric by its name. Returns false if there is none. */
bool measure_find(const char *name, enum measure_metric *ret);

static inline bool measure_is_time(enum measure_metric m)
{
	return m >= MEASURE_TOTAL;
}

static inline bool measure_is_sum(enum measure_metric m)
{
	return m <= MEASURE_TOTAL;
}

struct measure {
	uint64_t low, high;  /* high UINT64_MAX: without limit */
	uint64_t calls;      /* calls that were measured */
	uint64_t cut;        /* calls that the limits of the trace, or gaps, cut */
	bool absent;         /* no function of the trace matches */
	const char *unknown; /* why there is no value, or NULL */
};

struct measure_options {
	enum measure_metric metric;
	const char *function; /* a pattern; the calls of all functions that match are taken together */
	bool nominal;         /* take times as they are, as if their bounds were 0 */
};

/* Measures the functions that match a pattern. Returns 0, or an error of store_iter_next() or store_finder_next(). */
int measure_function(const struct store *s, const struct measure_options *o, struct measure *ret);

/* Receives the value of each whole call. A return value other than 0 ends the measurement. */
struct measure_sink {
	int (*call)(void *user, const struct measure *value, uint64_t time, uint32_t tid);
	void *user;
};

/*
 * Measures a sum within each call of the functions that match per, in its thread; ret->cut is the number of those that
 * are not whole, ret->unknown why nothing can be measured.
 */
int measure_per_call(const struct store *s, const struct measure_options *o, const char *per,
		     const struct measure_sink *sink, struct measure *ret);

#endif
