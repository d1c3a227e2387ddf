/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/quantile.h"
#include "lib/base/util.h"

enum { PERCENT = 99, FIRST_BITS = 4 };

/* Values below QUANTILE_STEPS have a bucket each. */
static unsigned bucket_of(uint64_t value)
{
	unsigned bits;

	if (value < QUANTILE_STEPS)
		return (unsigned)value;
	bits = 63 - (unsigned)__builtin_clzll(value);
	if (bits >= QUANTILE_BITS)
		return QUANTILE_BUCKETS - 1;
	return (bits - FIRST_BITS + 1) * QUANTILE_STEPS + (unsigned)(value >> (bits - FIRST_BITS)) % QUANTILE_STEPS;
}

/* Returns the largest value of a bucket. */
static uint64_t largest_in(unsigned bucket)
{
	unsigned octave = bucket / QUANTILE_STEPS;

	if (octave == 0)
		return bucket;
	if (bucket == QUANTILE_BUCKETS - 1)
		return UINT64_MAX;
	return (((uint64_t)QUANTILE_STEPS + bucket % QUANTILE_STEPS + 1) << (octave - 1)) - 1;
}

/* Returns the 99th percentile of the complete seconds, or UINT64_MAX where they have too few values. */
static uint64_t percentile_of(const struct quantile *q)
{
	uint64_t all = 0, n = 0;
	unsigned i = 0;

	for (unsigned k = 0; k < QUANTILE_BUCKETS; k++)
		all += q->total[k];
	if (all < QUANTILE_LEAST)
		return UINT64_MAX;
	while ((n += q->total[i]) * 100 < all * PERCENT)
		i++;
	return largest_in(i);
}

/* Ends the current second: adds its histogram to the total, and begins the next one in the place of the oldest. */
static void complete_second(struct quantile *q)
{
	const uint32_t *is = q->seconds[q->second++ % ELEMENTS(q->seconds)];
	uint32_t *oldest = q->seconds[q->second % ELEMENTS(q->seconds)];

	for (unsigned i = 0; i < QUANTILE_BUCKETS; i++)
		q->total[i] += (uint64_t)is[i] - oldest[i];
	memset(oldest, 0, sizeof(q->seconds[0]));
}

bool quantile_add(struct quantile *q, uint64_t now, uint64_t value)
{
	uint64_t second = now / 1000000000;
	bool turned = second > q->second;

	if (second > q->second + QUANTILE_SECONDS) {
		memset(q, 0, sizeof(*q));
		q->second = second;
	}
	while (q->second < second)
		complete_second(q);
	if (turned)
		q->limit = percentile_of(q);
	q->seconds[q->second % ELEMENTS(q->seconds)][bucket_of(value)]++;
	return value > q->limit;
}
