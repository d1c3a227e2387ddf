/* SPDX-License-Identifier: MIT */
#include "client/call-list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/store/finder.h"

/* A call that differs by less from the median is not worth an explanation; with few calls, chance does more. */
enum { FEW_CALLS = 20, LEAST_PERCENT = 10, LEAST_PERCENT_OF_FEW = 50 };
enum { TAIL_BASE = 3, TAIL_GROWTH = 2 };

/* goes_on: it has been open since before the segment. left: enum leave_kind. */
static int add_part(struct call_list *l, const struct store_call *call, bool goes_on, uint8_t left)
{
	/* What goes on behind a gap is counted. */
	l->incomplete += !goes_on || l->cut_thread != call->thread + (size_t)1;
	l->cut_thread = left == LEAVE_GAP ? call->thread + (size_t)1 : 0;
	if (l->n_parts == CALL_LIST_PARTS_MAX)
		return 0;
	if (array_reserve(l->parts, l->n_parts, &l->cap_parts) < 0)
		return -ENOMEM;
	l->parts[l->n_parts++] = *call;
	return 0;
}

/* Adds a call; every stride-th whole one is listed. */
static int add_call(struct call_list *l, const struct store_found_call *found, uint64_t stride)
{
	const struct store_call call = { .enter = found->frame.enter,
					 .begin = found->frame.instructions,
					 .end = found->end,
					 .ns = found->ns,
					 .instructions = found->instructions,
					 .thread = (uint32_t)found->thread,
					 .whole = found->whole };

	l->suspended += found->left == LEAVE_SWITCH && !calls_kind_is_resumed(found->frame.kind);
	if (!call.whole)
		return add_part(l, &call, found->frame.kind == CALL_INFERRED, found->left);
	if (!l->whole || call_list_value(l, &call) > call_list_value(l, &l->slowest))
		l->slowest = call;
	if (l->whole++ % stride)
		return 0;
	if (array_reserve(l->calls, l->n, &l->cap) < 0)
		return -ENOMEM;
	l->calls[l->n++] = call;
	return 0;
}

static int compare_values(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

int call_list_read(struct call_list *l, const struct store *s, const uint8_t *roots, enum measure measure)
{
	const struct store_finder_options options = { .wanted = roots, .tid = -1, .outermost = true };
	_cleanup_(store_finder_freep) struct store_finder *f = NULL;
	struct store_found_call found;
	uint64_t expected = 0;
	int rc = store_finder_new(s, &options, &f);

	*l = (struct call_list){ .store = s, .roots = roots, .measure = measure };
	for (size_t i = 0; i < store_functions(s); i++)
		expected += roots[i] ? store_function(s, i)->calls : 0;
	while (rc == 0 && (rc = store_finder_next(f, &found)) == 1)
		rc = add_call(l, &found, expected / CALL_LIST_MAX + 1);
	if (rc < 0)
		return rc;
	l->sorted = malloc((l->n + 1) * sizeof(*l->sorted));
	if (!l->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		l->sorted[i] = call_list_value(l, &l->calls[i]);
	qsort(l->sorted, l->n, sizeof(*l->sorted), compare_values);
	return 0;
}

void call_list_done(struct call_list *l)
{
	free(l->calls);
	free(l->parts);
	free(l->sorted);
	*l = (struct call_list){ 0 };
}

uint64_t call_list_quantile(const struct call_list *l, double share)
{
	/* In whole numbers: a product such as 0.07 * 100 is more than 7. */
	uint64_t millionths = (uint64_t)(share * 1e6 + 0.5), rank = (l->n * millionths + 999999) / 1000000;

	return l->sorted[MAX(rank, 1u) - 1];
}

/*
 * The slowest of many calls is farther away by chance: of an exponential distribution by ln(n) times what nine of ten
 * calls do not exceed, and of those with a heavier tail by more.
 */
static bool exceeds_tail(const struct call_list *l, double median, double value)
{
	double tail = (double)call_list_quantile(l, 0.9) - median;

	return l->n >= FEW_CALLS && value - median > (TAIL_BASE + TAIL_GROWTH * log10((double)l->n)) * tail;
}

bool call_list_stands_out(const struct call_list *l, uint64_t value)
{
	unsigned least = l->n < FEW_CALLS ? LEAST_PERCENT_OF_FEW : LEAST_PERCENT;
	double median, whole, whole_log, step = 0, step_log = 0, before, before_log;

	if (!l->n)
		return false;
	median = (double)call_list_quantile(l, 0.5);
	whole = (double)value - median;
	if (whole * 100 <= median * least)
		return false;
	whole_log = log1p((double)value) - log1p(median);
	before = median;
	before_log = log1p(median);
	for (size_t i = l->n / 2; i <= l->n; i++) {
		double at = i < l->n ? (double)MIN(l->sorted[i], value) : (double)value, at_log = log1p(at);

		step = MAX(step, at - before);
		step_log = MAX(step_log, at_log - before_log);
		before = MAX(before, at);
		before_log = MAX(before_log, at_log);
	}
	return 2 * step >= whole || 2 * step_log >= whole_log || exceeds_tail(l, median, (double)value);
}

/* Returns the better one: that which covers the time for longer, or else begins first after it. */
static const struct store_call *better_at(const struct store_call *a, const struct store_call *b, uint64_t time)
{
	bool covers_a = a && a->enter <= time, covers_b = b->enter <= time;

	if (b->end <= time)
		return a;
	if (!a || covers_a != covers_b)
		return covers_a ? a : b;
	return covers_a ? (b->ns > a->ns ? b : a) : (b->enter < a->enter ? b : a);
}

const struct store_call *call_list_at(const struct call_list *l, uint64_t time)
{
	const struct store_call *best = NULL;

	for (size_t i = 0; i < l->n; i++)
		best = better_at(best, &l->calls[i], time);
	for (size_t i = 0; i < l->n_parts; i++)
		best = better_at(best, &l->parts[i], time);
	if (l->whole)
		best = better_at(best, &l->slowest, time);
	return best;
}
