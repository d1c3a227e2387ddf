/* SPDX-License-Identifier: MIT */
#include "lib/store/cut-calls.h"

#include <stdlib.h>

#include "lib/base/array.h"
#include "lib/base/util.h"

#define NO_FUNCTION UINT32_MAX

enum { CUT_CALLS_MAX = 1 << 20 };

static void drop(struct cut_calls *c)
{
	uint32_t function = c->list[--c->n];

	if (function != NO_FUNCTION)
		c->counts[function]--;
}

static int count(struct cut_calls *c, uint32_t function)
{
	while (c->n_counts <= function) {
		if (array_reserve(c->counts, c->n_counts, &c->cap_counts) < 0)
			return -ENOMEM;
		c->counts[c->n_counts++] = 0;
	}
	c->counts[function]++;
	return 0;
}

int cut_calls_add(struct cut_calls *c, size_t depth, uint32_t function)
{
	int rc = count(c, function);

	if (rc < 0)
		return rc;
	if (!c->cutting) {
		while (c->n && c->n + depth >= CUT_CALLS_MAX)
			drop(c);
		c->base = c->n;
		while (c->n <= c->base + depth) {
			if (array_reserve(c->list, c->n, &c->cap) < 0)
				return -ENOMEM;
			c->list[c->n++] = NO_FUNCTION;
		}
	}
	c->list[c->base + depth] = function;
	c->cutting = depth > 0;
	return 0;
}

bool cut_calls_join(struct cut_calls *c, uint32_t function)
{
	size_t k = c->joined;

	if (k) {
		while (k < c->n && c->list[k] != function)
			k++;
		if (k == c->n)
			return false;
	} else {
		for (k = c->n - 1; c->list[k] != function;)
			k--;
		c->joined_first = k;
	}
	c->joined = k + 1;
	return true;
}

void cut_calls_end_joined(struct cut_calls *c)
{
	while (c->n > c->joined_first)
		drop(c);
	c->joined = 0;
}

void cut_calls_done(struct cut_calls *c)
{
	free(c->list);
	free(c->counts);
	*c = (struct cut_calls){ 0 };
}
