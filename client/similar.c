/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <strings.h>

#include "client/similar.h"
#include "lib/base/util.h"

unsigned similar_distance(const char *a, size_t a_size, const char *b, size_t b_size, unsigned limit)
{
	unsigned rows[3][SIMILAR_MAX + 1];

	if (a_size > SIMILAR_MAX || b_size > SIMILAR_MAX ||
	    (a_size > b_size ? a_size - b_size : b_size - a_size) > limit)
		return limit + 1;
	for (size_t k = 0; k <= b_size; k++)
		rows[0][k] = (unsigned)k;
	for (size_t i = 1; i <= a_size; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *before = rows[(i - 1) % 3], *swapped = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t k = 1; k <= b_size; k++) {
			row[k] = MIN(MIN(before[k], row[k - 1]) + 1, before[k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				row[k] = MIN(row[k], swapped[k - 2] + 1);
		}
	}
	return rows[a_size % 3][b_size];
}

const char *similar_word(const char *typed, const char *const *list, size_t n)
{
	unsigned best = (unsigned)MAX(strlen(typed) / 2, (size_t)1) + 1;
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned d = similar_distance(typed, strlen(typed), list[i], strlen(list[i]), best);

		/* A beginning of at least two characters is as good as one mistake. */
		if (strlen(typed) >= 2 && strncasecmp(typed, list[i], strlen(typed)) == 0)
			d = MIN(d, 1u);
		if (d >= best)
			continue;
		best = d;
		found = list[i];
	}
	return found;
}
