#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/store/histogram.h"

/* So that it has this class, and some on that side for those that come next. */
static int widen(struct histogram *h, unsigned class)
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
	*h = (struct histogram){ counts, first, end - first };
	return 0;
}

int histogram_add(struct histogram *h, uint64_t ns)
{
	unsigned class = histogram_class(ns);
	int rc = class < h->first || class >= h->first + h->n ? widen(h, class) : 0;

	if (rc == 0)
		h->counts[class - h->first]++;
	return rc;
}

void histogram_done(struct histogram *h)
{
	free(h->counts);
	*h = (struct histogram){ 0 };
}
