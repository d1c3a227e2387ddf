/* SPDX-License-Identifier: MIT */
/* Finds the call of a list with which others are compared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/call-list.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* Limits of the calls and events that are read to find it. */
enum { CANDIDATES = 16, EVENTS_MAX = 1 << 21 };

struct counted_function {
	uint32_t function, calls;
};

/* The shape of a call: the functions beneath it, in order, with their numbers of calls. */
struct shape {
	const struct store_call *call;
	struct counted_function *counts;
	size_t n, cap;
};

struct shape_reading {
	struct shape *to;
	uint32_t *index; /* by function: of its count plus one */
	uint64_t events;
};

static int on_event(void *user, const struct store_event *e, uint32_t depth)
{
	struct shape_reading *r = user;
	struct shape *s = r->to;

	r->events++;
	if (e->type != STORE_ENTER || !depth || calls_kind_is_resumed(e->kind) || e->frame.piece)
		return 0;
	if (!r->index[e->frame.function]) {
		if (array_reserve(s->counts, s->n, &s->cap) < 0)
			return -ENOMEM;
		s->counts[s->n++] = (struct counted_function){ e->frame.function, 0 };
		r->index[e->frame.function] = (uint32_t)s->n;
	}
	s->counts[r->index[e->frame.function] - 1].calls++;
	return 0;
}

static int compare_functions(const void *left, const void *right)
{
	const struct counted_function *a = left, *b = right;

	return (a->function > b->function) - (a->function < b->function);
}

static int read_shape(const struct call_list *l, struct shape_reading *r)
{
	const struct store_call_sink sink = { on_event, r };
	int rc = store_call_read(l->store, l->roots, r->to->call, &sink);

	for (size_t i = 0; i < r->to->n; i++)
		r->index[r->to->counts[i].function] = 0;
	if (r->to->n)
		qsort(r->to->counts, r->to->n, sizeof(*r->to->counts), compare_functions);
	return rc;
}

static double calls_log(uint32_t calls)
{
	return log2(1.0 + calls);
}

static double shape_distance(const struct shape *a, const struct shape *b)
{
	double sum = 0;
	size_t i = 0, k = 0;

	while (i < a->n || k < b->n) {
		bool left = k == b->n || (i < a->n && a->counts[i].function < b->counts[k].function);

		if (left)
			sum += calls_log(a->counts[i++].calls);
		else if (i == a->n || b->counts[k].function < a->counts[i].function)
			sum += calls_log(b->counts[k++].calls);
		else
			sum += fabs(calls_log(a->counts[i++].calls) - calls_log(b->counts[k++].calls));
	}
	return sum;
}

static bool same_call(const struct store_call *a, const struct store_call *b)
{
	return a->thread == b->thread && a->enter == b->enter && a->begin == b->begin;
}

static uint64_t distance_of(const struct call_list *l, const struct store_call *call, uint64_t median)
{
	uint64_t value = call_list_value(l, call);

	return value > median ? value - median : median - value;
}

/*
 * Selects the calls nearest to the median. Of those equally near, which are often many, some from all over the trace.
 */
static size_t select_candidates(const struct call_list *l, const struct store_call *except, struct shape *ret)
{
	uint64_t median = call_list_quantile(l, 0.5), limit = 0;
	size_t low = (l->n - 1) / 2, high = low, n = 0, near = 0, step, seen = 0,
	       wanted = MAX(MIN(l->n / 4, (size_t)CANDIDATES), (size_t)2);

	/* The distance that this many do not exceed; one of them may be left out. */
	while (high - low + 1 < wanted && (low || high + 1 < l->n)) {
		uint64_t below = low ? median - l->sorted[low - 1] : UINT64_MAX,
			 above = high + 1 < l->n ? l->sorted[high + 1] - median : UINT64_MAX;

		limit = MAX(limit, MIN(below, above));
		if (below <= above)
			low--;
		else
			high++;
	}
	for (size_t i = 0; i < l->n; i++)
		near += distance_of(l, &l->calls[i], median) <= limit;
	step = near / CANDIDATES + 1;
	for (size_t i = 0; i < l->n && n < CANDIDATES; i++)
		if (distance_of(l, &l->calls[i], median) <= limit && !same_call(&l->calls[i], except) &&
		    seen++ % step == 0)
			ret[n++].call = &l->calls[i];
	return n;
}

int call_list_typical(const struct call_list *l, const struct store_call *except, struct store_call *ret)
{
	_cleanup_free_ uint32_t *index = calloc(store_functions(l->store) + 1, sizeof(*index));
	struct shape shapes[CANDIDATES] = { 0 };
	struct shape_reading r = { .index = index };
	size_t n = l->n ? select_candidates(l, except, shapes) : 0, read = 0;
	uint64_t median = l->n ? call_list_quantile(l, 0.5) : 0, nearest = UINT64_MAX;
	double best = INFINITY;
	int rc = !index ? -ENOMEM : n ? 0 : -ENOENT;

	for (; rc == 0 && read < n && r.events < EVENTS_MAX; read++) {
		r.to = &shapes[read];
		rc = read_shape(l, &r);
	}
	for (size_t i = 0; rc == 0 && i < read; i++) {
		uint64_t distance = distance_of(l, shapes[i].call, median);
		double sum = 0;

		for (size_t k = 0; k < read; k++)
			sum += shape_distance(&shapes[i], &shapes[k]);
		if (sum > best || (sum == best && distance >= nearest))
			continue;
		nearest = distance;
		best = sum;
		*ret = *shapes[i].call;
	}
	for (size_t i = 0; i < CANDIDATES; i++)
		free(shapes[i].counts);
	return rc;
}
