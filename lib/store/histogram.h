/* SPDX-License-Identifier: MIT */
/* Histogram of the durations of calls. The width of a class is at most 1/16 of its durations. */
#ifndef CSIGHT_STORE_HISTOGRAM_H
#define CSIGHT_STORE_HISTOGRAM_H

#include <stdint.h>

#include "lib/base/util.h"

enum { HISTOGRAM_EXACT = 32, HISTOGRAM_STEPS = 16, HISTOGRAM_CLASSES = HISTOGRAM_EXACT + (64 - 5) * HISTOGRAM_STEPS };

/* Below 32 ns each duration has its own class; above, each power of two is divided into sixteen classes. */
static inline unsigned histogram_class(uint64_t ns)
{
	unsigned power;

	if (ns < HISTOGRAM_EXACT)
		return (unsigned)ns;
	power = 63 - (unsigned)__builtin_clzll(ns);
	return HISTOGRAM_EXACT + (power - 5) * HISTOGRAM_STEPS + (unsigned)(ns >> (power - 4) & 15);
}

/* Returns the middle of a class. */
static inline uint64_t histogram_time(unsigned class)
{
	unsigned power = 5 + (class - HISTOGRAM_EXACT) / HISTOGRAM_STEPS,
		 step = (class - HISTOGRAM_EXACT) % HISTOGRAM_STEPS;

	if (class < HISTOGRAM_EXACT)
		return class;
	return ((uint64_t)(16 + step) << (power - 4)) + ((uint64_t)1 << (power - 4)) / 2;
}

/* Counts of the classes from first on; all others are 0. */
struct histogram {
	uint64_t *counts;
	uint32_t first, n;
	uint64_t least, most; /* values */
};

/* Extends the range of classes to include this one. -ENOMEM. */
int histogram_widen(struct histogram *h, unsigned class);

static inline int histogram_add(struct histogram *h, uint64_t ns)
{
	unsigned class = histogram_class(ns);
	int rc = class - h->first >= h->n ? histogram_widen(h, class) : 0;

	if (rc < 0)
		return rc;
	h->counts[class - h->first]++;
	h->least = MIN(h->least, ns);
	h->most = MAX(h->most, ns);
	return 0;
}

/*
 * Returns the middle of the class of the nth smallest value, from 1 on, within the least and the greatest one. There
 * must be one.
 */
uint64_t histogram_nth(const struct histogram *h, uint64_t nth);
void histogram_done(struct histogram *h);

#endif
