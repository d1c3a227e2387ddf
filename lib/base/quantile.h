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
	QUANTILE_LEAST = 100, /* values, of which there is a 99th percentile */
	QUANTILE_STEPS = 16,  /* buckets of an octave */
	QUANTILE_BITS = 40,   /* of values; larger ones count in the last bucket */
	QUANTILE_BUCKETS = (QUANTILE_BITS - 3) * QUANTILE_STEPS,
};

/* Begins with zeros. */
struct quantile {
	uint64_t second;                                          /* of the last value */
	uint64_t limit;                                           /* of this second; UINT64_MAX: too few values */
	uint64_t total[QUANTILE_BUCKETS];                         /* of the complete seconds */
	uint32_t seconds[QUANTILE_SECONDS + 1][QUANTILE_BUCKETS]; /* in turns, with the one that is not complete */
};

/*
 * Adds a value at a time in ns that does not go back by seconds. Returns whether it is larger than at least 99 % of the
 * values of the 60 complete seconds before its own. False: it may be by less than 1/16, or those are less than
 * QUANTILE_LEAST.
 */
bool quantile_add(struct quantile *q, uint64_t now, uint64_t value);

#endif
