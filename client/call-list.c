/* SPDX-License-Identifier: MIT */
#include "client/call-list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"

/* A call that differs by less from the median is not worth an explanation; with few calls, chance does more. */
enum { FEW_CALLS = 20, LEAST_PERCENT = 10, LEAST_PERCENT_OF_FEW = 50 };
enum { TAIL_BASE = 3, TAIL_GROWTH = 2 };

/* The function that is physically open: what pieces of an inlined call have in common. */
struct call_place {
	uint64_t enter, instructions;
	size_t depth;
};

/* The state of reading one thread. */
struct list_reading {
	struct call_list *to;
	struct store_iter *it;
	uint32_t thread;
	uint64_t stride;
	size_t open;      /* frames of the function that are open */
	uint64_t left_ns; /* pieces of the call that can be continued */
	uint64_t left_instructions;
	struct store_call last; /* that call; end 0: there is none */
	struct call_place place;
};

static struct call_place place_of(const struct list_reading *r)
{
	const struct store_frame *stack;
	size_t depth = store_iter_stack(r->it, &stack);

	while (depth && stack[depth - 1].site != STORE_NO_SITE)
		depth--;
	return depth ? (struct call_place){ stack[depth - 1].enter, stack[depth - 1].instructions, depth }
		     : (struct call_place){ 0 };
}

static bool same_place(const struct call_place *a, const struct call_place *b)
{
	return a->enter == b->enter && a->instructions == b->instructions && a->depth == b->depth;
}

static int add_part(struct call_list *l, const struct store_call *call)
{
	l->incomplete++;
	if (l->n_parts == CALL_LIST_PARTS_MAX)
		return 0;
	if (array_reserve(l->parts, l->n_parts, &l->cap_parts) < 0)
		return -ENOMEM;
	l->parts[l->n_parts++] = *call;
	return 0;
}

/* Adds the call that no further piece can continue. */
static int add_last(struct list_reading *r)
{
	struct call_list *l = r->to;
	struct store_call call = r->last;

	r->last.end = 0;
	if (!call.end)
		return 0;
	if (!call.whole)
		return add_part(l, &call);
	if (!l->whole || call_list_value(l, &call) > call_list_value(l, &l->slowest))
		l->slowest = call;
	if (l->whole++ % r->stride)
		return 0;
	if (array_reserve(l->calls, l->n, &l->cap) < 0)
		return -ENOMEM;
	l->calls[l->n++] = call;
	return 0;
}

/* Handles the end of a call, or of a part of one. */
static int on_leave(struct list_reading *r, const struct store_event *e)
{
	bool inlined = e->frame.site != STORE_NO_SITE, resumed = calls_kind_is_resumed(e->frame.kind);
	struct call_place place = place_of(r);
	uint64_t ns = e->time - e->frame.enter, instructions = e->instructions - e->frame.instructions;
	int rc;

	if (inlined && resumed && r->last.end && same_place(&place, &r->place)) {
		r->last.ns += ns;
		r->last.instructions += instructions;
		r->last.end = e->time;
		r->last.whole = r->last.whole && e->kind != LEAVE_GAP && e->kind != LEAVE_END;
		return 0;
	}
	rc = add_last(r);
	r->to->suspended += e->kind == LEAVE_SWITCH && !resumed;
	r->last = (struct store_call){ .enter = e->frame.enter,
				       .begin = e->frame.instructions,
				       .end = e->time,
				       .ns = ns,
				       .instructions = instructions,
				       .thread = r->thread,
				       .whole = store_is_whole(e) };
	r->place = place;
	return rc;
}

static int read_thread(struct list_reading *r)
{
	struct call_list *l = r->to;
	struct store_event e;
	int rc = 0, next;

	while (rc == 0 && (next = store_iter_next(r->it, &e)) != 0) {
		if (next < 0)
			return next;
		if ((e.type != STORE_ENTER && e.type != STORE_LEAVE) || !l->roots[e.frame.function] || e.frame.piece)
			continue;
		if (e.type == STORE_ENTER)
			r->open++;
		else if (r->open > 1)
			r->open--;
		else {
			r->open = 0;
			rc = on_leave(r, &e);
		}
	}
	return rc < 0 ? rc : add_last(r);
}

static int compare_values(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

int call_list_read(struct call_list *l, const struct store *s, const uint8_t *roots, enum measure measure)
{
	uint64_t expected = 0;
	int rc = 0;

	*l = (struct call_list){ .store = s, .roots = roots, .measure = measure };
	for (size_t i = 0; i < store_functions(s); i++)
		expected += roots[i] ? store_function(s, i)->calls : 0;
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		struct list_reading r = { .to = l, .thread = (uint32_t)i, .stride = expected / CALL_LIST_MAX + 1 };

		rc = store_iter_new(s, i, &it);
		if (rc < 0)
			return rc;
		store_iter_filter(it, roots);
		r.it = it;
		rc = read_thread(&r);
	}
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
	size_t index = (size_t)(share * (double)(l->n - 1));

	return l->sorted[MIN(index, l->n - 1)];
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
