/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "daemon/decode/intervals.h"

struct interval {
	uint32_t tid;
	uint64_t from, to;
};

struct intervals {
	size_t n;
	struct interval list[];
};

static int compare_intervals(const void *left, const void *right)
{
	const struct interval *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->from > b->from) - (a->from < b->from);
}

int intervals_new(json_object *list, struct intervals **ret)
{
	size_t n = list ? json_array_size(list) : 0;
	struct intervals *s = calloc(1, sizeof(*s) + n * sizeof(s->list[0]));
	uint64_t tid;

	if (!s)
		return -ENOMEM;
	for (; s->n < n; s->n++) {
		json_object *o = json_object_array_get_idx(list, s->n);
		struct interval *i = &s->list[s->n];

		if (!json_object_is_type(o, json_type_object) || json_get_u64(o, "tid", &tid) < 0 || tid > UINT32_MAX ||
		    json_get_u64(o, "from", &i->from) < 0 || json_get_u64(o, "to", &i->to) < 0) {
			free(s);
			return -EBADMSG;
		}
		i->tid = (uint32_t)tid;
	}
	if (n)
		qsort(s->list, n, sizeof(s->list[0]), compare_intervals);
	*ret = s;
	return 0;
}

struct intervals *intervals_free(struct intervals *s)
{
	free(s);
	return NULL;
}

/* Returns the number of intervals up to the last one of the thread that begins no later than a time. */
static size_t count_up_to(const struct intervals *s, uint32_t tid, uint64_t from)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->list[middle].tid < tid || (s->list[middle].tid == tid && s->list[middle].from <= from))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool intervals_have(const struct intervals *s, uint32_t tid)
{
	size_t n = count_up_to(s, tid, UINT64_MAX);

	return n && s->list[n - 1].tid == tid;
}

bool intervals_contain(const struct intervals *s, uint32_t tid, uint64_t from, uint64_t to)
{
	size_t n = count_up_to(s, tid, from);

	/* Intervals of a thread do not overlap: only the last one that begins no later can contain the times. */
	return n && s->list[n - 1].tid == tid && from <= to && to <= s->list[n - 1].to;
}
