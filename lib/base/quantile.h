/* SPDX-License-Identifier: MIT */
/*
 * The 99th percentile of the values of the last minute, in fixed memory: a histogram for each second, with 16 buckets
 * an octave. The caller's lock protects it.
 */
#ifndef CSIGHT_QUANTILE_H
#define CSIGHT_QUANTILE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	QUANTILE_SECONDS = 60,
	QUANTILE_LEAST = 100, /* fewest values that have a 99th percentile */
	QUANTILE_STEPS = 16,  /* buckets of an octave */
	QUANTILE_BITS = 40,   /* of values; larger ones count in the last bucket */
	QUANTILE_BUCKETS = (QUANTILE_BITS - 3) * QUANTILE_STEPS,
};

/* Begins with zeros. */
struct quantile {
	uint64_t second;                  /* of the last value */
	uint64_t limit;                   /* the 99th percentile for this second; UINT64_MAX: too few values */
	uint64_t total[QUANTILE_BUCKETS]; /* of the complete seconds */
	uint32_t seconds[QUANTILE_SECONDS + 1][QUANTILE_BUCKETS]; /* a ring, with the current one */
};

/*
 * Adds a value. now, in ns, is never in an earlier second than that of the previous call. Returns true if the value is
 * larger than at least 99 % of the values of the 60 complete seconds before now. Returns false also for a value that is
 * larger by less than 1/16, the width of a bucket, and while those seconds have less than QUANTILE_LEAST values.
 */
bool quantile_add(struct quantile *q, uint64_t now, uint64_t value);

#endif
