/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lib/store/histogram.h"

/* Adds some spare classes on the side that grows. */
int histogram_widen(struct histogram *h, unsigned class)
{
	enum { MORE = 8 };
	uint32_t first = h->n ? MIN(h->first, class - MIN(class, (unsigned)MORE)) : class;
	uint32_t end = h->n ? MAX(h->first + h->n, MIN(class + MORE, (unsigned)HISTOGRAM_CLASSES)) : class + 1;
	uint64_t *counts;

	if (h->n && class >= h->first)
		first = h->first;
	else if (h->n)
		end = h->first + h->n;
	counts = calloc(end - first, sizeof(*counts));
	if (!counts)
		return -ENOMEM;
	if (h->n)
		memcpy(counts + (h->first - first), h->counts, h->n * sizeof(*counts));
	free(h->counts);
	*h = (struct histogram){ counts, first, end - first, h->n ? h->least : UINT64_MAX, h->most };
	return 0;
}

uint64_t histogram_nth(const struct histogram *h, uint64_t nth)
{
	uint32_t i = 0;

	for (uint64_t sum = h->counts[0]; sum < nth && i + 1 < h->n;)
		sum += h->counts[++i];
	return MIN(MAX(histogram_time(h->first + i), h->least), h->most);
}

void histogram_done(struct histogram *h)
{
	free(h->counts);
	*h = (struct histogram){ 0 };
}
