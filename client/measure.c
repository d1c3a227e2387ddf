/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/measure.h"
#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/store/finder.h"

/* Durations are sorted into this many classes at a time, by digits from the highest on. */
enum { DIGIT_BITS = 16, DIGITS = 64 / DIGIT_BITS, CLASSES = 1 << DIGIT_BITS };

static const char UNCERTAIN[] = "it is inlined, and where some of its calls begin is not known";

static const struct {
	const char *name;
	unsigned permille; /* of the calls that are not longer */
} metrics[] = {
	[MEASURE_CALLS] = { "calls", 0 }, [MEASURE_INSTRUCTIONS] = { "instructions", 0 },
	[MEASURE_TOTAL] = { "total", 0 }, [MEASURE_MEAN] = { "mean", 0 },
	[MEASURE_MIN] = { "min", 0 },     [MEASURE_MEDIAN] = { "median", 500 },
	[MEASURE_P90] = { "p90", 900 },   [MEASURE_P95] = { "p95", 950 },
	[MEASURE_P99] = { "p99", 990 },   [MEASURE_P999] = { "p999", 999 },
	[MEASURE_MAX] = { "max", 1000 },
};

bool measure_find(const char *name, enum measure_metric *ret)
{
	for (size_t i = 0; i < ELEMENTS(metrics); i++)
		if (strcmp(metrics[i].name, name) == 0) {
			*ret = (enum measure_metric)i;
			return true;
		}
	return false;
}

/* Returns an array by function number: whether the function matches. */
static uint8_t *match_functions(const struct store *s, const char *pattern, bool *ret_uncertain, bool *ret_absent)
{
	uint8_t *wanted = calloc(store_functions(s) + 1, 1);

	*ret_uncertain = false;
	*ret_absent = true;
	for (size_t i = 0; wanted && i < store_functions(s); i++) {
		wanted[i] = store_name_matches(store_function(s, i)->name, pattern);
		*ret_absent &= !wanted[i];
		*ret_uncertain |= wanted[i] && store_function(s, i)->calls_uncertain;
	}
	return wanted;
}

/* A sum in one thread, while its events are read. */
struct sum {
	const struct store *store;
	const struct measure_options *options;
	const uint8_t *wanted;
	size_t thread;
	uint64_t calls, instructions, ns, bound; /* calls: entered; the others: of calls that ended */
	bool open;                               /* a call of a wanted function is open */
	uint32_t depth;                          /* depth of the open call */
	uint64_t enter, begin;                   /* time and instruction count at which the open call was entered */
};

static uint64_t bound_of(const struct sum *s, uint64_t from, uint64_t to)
{
	return s->options->nominal ? 0 : store_duration_bound(s->store, s->thread, from, to);
}

static void sum_event(struct sum *s, const struct store_event *e)
{
	if ((e->type != STORE_ENTER && e->type != STORE_LEAVE) || e->frame.piece || !s->wanted[e->frame.function])
		return;
	if (e->type == STORE_ENTER) {
		s->calls += !calls_kind_is_resumed(e->kind) && e->kind != CALL_INFERRED;
		if (s->open)
			return;
		s->open = true;
		s->depth = e->depth;
		s->enter = e->time;
		s->begin = e->instructions;
	} else if (s->open && e->depth == s->depth) {
		s->open = false;
		s->ns += e->time - s->enter;
		s->instructions += e->instructions - s->begin;
		s->bound = add_saturating(s->bound, bound_of(s, s->enter, e->time));
	}
}

/* Returns the sum up to an event, with the part of an open call before it. */
static struct measure sum_value(const struct sum *s, const struct store_event *e)
{
	uint64_t bound = add_saturating(s->bound, s->open ? bound_of(s, s->enter, e->time) : 0);
	struct measure m = { .calls = s->calls };

	m.low = m.high = s->calls;
	if (s->options->metric == MEASURE_INSTRUCTIONS)
		m.low = m.high = s->instructions + (s->open ? e->instructions - s->begin : 0);
	if (s->options->metric == MEASURE_TOTAL) {
		uint64_t ns = s->ns + (s->open ? e->time - s->enter : 0);

		m.low = ns - MIN(ns, bound);
		m.high = add_saturating(ns, bound);
	}
	return m;
}

static int sum_function(const struct store *s, const struct measure_options *o, const uint8_t *wanted,
			struct measure *ret)
{
	struct store_event e = { 0 };
	uint64_t gaps = 0;

	for (size_t i = 0; i < store_threads(s); i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		struct sum sum = { .store = s, .options = o, .wanted = wanted, .thread = i };
		struct measure m;
		int rc;

		gaps += store_thread(s, i)->gaps;
		if (o->metric == MEASURE_CALLS)
			continue;
		rc = store_iter_new(s, i, &it);
		while (rc == 0 && (rc = store_iter_next(it, &e)) == 1) {
			sum_event(&sum, &e);
			rc = 0;
		}
		if (rc < 0)
			return rc;
		m = sum_value(&sum, &e);
		ret->low += m.low;
		ret->high = add_saturating(ret->high, m.high);
	}
	/* Those that were open when the trace began count, too. */
	for (size_t i = 0; i < store_functions(s); i++)
		ret->calls += wanted[i] ? store_function(s, i)->calls : 0;
	if (o->metric == MEASURE_CALLS)
		ret->low = ret->high = ret->calls;
	if (gaps)
		ret->high = UINT64_MAX;
	return 0;
}

/* Passes all calls of the wanted functions to call(), including those of which the trace has a part alone. */
static int read_calls(const struct store *s, const uint8_t *wanted,
		      void (*call)(void *, const struct store_found_call *), void *user)
{
	_cleanup_(store_finder_freep) struct store_finder *f = NULL;
	struct store_found_call c;
	int rc = store_finder_new(s, &(struct store_finder_options){ .wanted = wanted, .tid = -1 }, &f);

	while (rc == 0 && (rc = store_finder_next(f, &c)) == 1) {
		call(user, &c);
		rc = 0;
	}
	return rc;
}

/*
 * The state of one pass over the durations: it counts those that begin with the prefix, in classes by their next digit.
 */
struct digit {
	bool nominal, upper;
	unsigned shift;
	uint64_t prefix;  /* the higher digits that are known */
	uint64_t *counts; /* of CLASSES */
};

static uint64_t duration_limit(const struct store_found_call *c, bool nominal, bool upper)
{
	uint64_t bound = nominal ? 0 : c->bound;

	return upper ? add_saturating(c->ns, bound) : c->ns - MIN(c->ns, bound);
}

static void add_to_class(void *user, const struct store_found_call *c)
{
	struct digit *d = user;
	uint64_t v = duration_limit(c, d->nominal, d->upper);

	if (c->whole && (d->shift + DIGIT_BITS >= 64 || v >> (d->shift + DIGIT_BITS) == d->prefix))
		d->counts[v >> d->shift & (CLASSES - 1)]++;
}

/* Finds the value of which rank durations, counted from 1, are not larger. */
static int find_rank(const struct store *s, const uint8_t *wanted, struct digit *d, uint64_t rank, uint64_t *ret)
{
	d->prefix = 0;
	for (unsigned i = 0; i < DIGITS; i++) {
		uint64_t class = 0;
		int rc;

		d->shift = 64 - DIGIT_BITS * (i + 1);
		memset(d->counts, 0, CLASSES * sizeof(*d->counts));
		rc = read_calls(s, wanted, add_to_class, d);
		if (rc < 0)
			return rc;
		while (class < CLASSES - 1 && d->counts[class] < rank)
			rank -= d->counts[class ++];
		d->prefix = d->prefix << DIGIT_BITS | class;
	}
	*ret = d->prefix;
	return 0;
}

/* Sums and extremes over all calls. */
struct overview {
	bool nominal;
	uint64_t whole, cut, ns, bound;
	uint64_t shortest[2], longest[2]; /* lower and upper limits */
	uint64_t longest_cut;
};

static void add_to_overview(void *user, const struct store_found_call *c)
{
	struct overview *o = user;

	if (!c->whole) {
		o->cut++;
		o->longest_cut = MAX(o->longest_cut, duration_limit(c, o->nominal, false));
		return;
	}
	o->whole++;
	o->ns += c->ns;
	o->bound += o->nominal ? 0 : c->bound;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t v = duration_limit(c, o->nominal, i == 1);

		o->shortest[i] = MIN(o->shortest[i], v);
		o->longest[i] = MAX(o->longest[i], v);
	}
}

static int find_quantile(const struct store *s, const uint8_t *wanted, const struct measure_options *o,
			 struct measure *ret)
{
	_cleanup_free_ uint64_t *counts = calloc(CLASSES, sizeof(*counts));
	uint64_t rank = (ret->calls * metrics[o->metric].permille + 999) / 1000;
	struct digit d = { .nominal = o->nominal, .counts = counts };
	int rc = counts ? find_rank(s, wanted, &d, rank, &ret->low) : -ENOMEM;

	ret->high = ret->low;
	d.upper = true;
	return rc == 0 && !o->nominal ? find_rank(s, wanted, &d, rank, &ret->high) : rc;
}

static int measure_calls(const struct store *s, const struct measure_options *o, const uint8_t *wanted,
			 struct measure *ret)
{
	struct overview all = { .nominal = o->nominal, .shortest = { UINT64_MAX, UINT64_MAX } };
	int rc = read_calls(s, wanted, add_to_overview, &all);

	if (rc < 0)
		return rc;
	*ret = (struct measure){ .calls = all.whole, .cut = all.cut };
	if (!all.whole && !(o->metric == MEASURE_MAX && all.cut))
		ret->unknown = "no call was traced from its begin to its end";
	if (ret->unknown)
		return 0;
	switch (o->metric) {
	case MEASURE_MEAN:
		ret->low = (all.ns - MIN(all.ns, all.bound)) / all.whole;
		ret->high = (all.ns + all.bound + all.whole - 1) / all.whole;
		return 0;
	case MEASURE_MIN:
		ret->low = all.shortest[0];
		ret->high = all.shortest[1];
		return 0;
	case MEASURE_MAX:
		ret->low = MAX(all.longest[0], all.longest_cut);
		ret->high = all.cut ? UINT64_MAX : all.longest[1];
		return 0;
	default:
		return find_quantile(s, wanted, o, ret);
	}
}

int measure_function(const struct store *s, const struct measure_options *o, struct measure *ret)
{
	bool uncertain, absent;
	_cleanup_free_ uint8_t *wanted = match_functions(s, o->function, &uncertain, &absent);
	int rc;

	*ret = (struct measure){ .low = 0 };
	if (!wanted)
		return -ENOMEM;
	rc = measure_is_sum(o->metric) ? sum_function(s, o, wanted, ret) : measure_calls(s, o, wanted, ret);
	if (rc == 0 && uncertain && o->metric == MEASURE_CALLS)
		ret->unknown = UNCERTAIN;
	ret->absent = absent;
	return rc;
}

/* The open calls of CALLER (per) in a thread, by depth, each with the sums at its begin. */
struct open_calls {
	struct measure *at;
	size_t n, room;
};

static int set_begin_sum(struct open_calls *open, uint32_t depth, const struct measure *m)
{
	while (open->n <= depth) {
		if (array_reserve(open->at, open->n, &open->room) < 0)
			return -ENOMEM;
		open->at[open->n++] = (struct measure){ .low = 0 };
	}
	open->at[depth] = *m;
	return 0;
}

static struct measure difference(const struct measure *from, const struct measure *to)
{
	/* The bounds of times up to the begin are in both. */
	uint64_t low = to->low - MIN(from->low, to->low), high = to->high - MIN(from->high, to->high);

	return (struct measure){ .low = MIN(low, high), .high = MAX(low, high), .calls = to->calls - from->calls };
}

/* Measures within the calls of one thread. Returns 0, 1 if the sink has ended the measurement, or negative errno. */
static int measure_thread(struct sum *sum, const uint8_t *outer, struct open_calls *open,
			  const struct measure_sink *sink, uint64_t *cut)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	int rc = store_iter_new(sum->store, sum->thread, &it);

	while (rc == 0 && (rc = store_iter_next(it, &e)) == 1) {
		bool of_outer =
		    (e.type == STORE_ENTER || e.type == STORE_LEAVE) && !e.frame.piece && outer[e.frame.function];
		struct measure now;

		/* A call of both functions is not one within itself. */
		if (e.type == STORE_ENTER)
			sum_event(sum, &e);
		now = sum_value(sum, &e);
		rc = of_outer && e.type == STORE_ENTER ? set_begin_sum(open, e.depth, &now) : 0;
		if (of_outer && e.type == STORE_LEAVE && store_is_whole(&e) && e.depth < open->n) {
			now = difference(&open->at[e.depth], &now);
			rc = sink->call(sink->user, &now, e.frame.enter, store_thread(sum->store, sum->thread)->tid);
		} else if (of_outer && e.type == STORE_LEAVE) {
			++*cut;
		}
		if (e.type == STORE_LEAVE)
			sum_event(sum, &e);
	}
	return rc;
}

int measure_per_call(const struct store *s, const struct measure_options *o, const char *per,
		     const struct measure_sink *sink, struct measure *ret)
{
	bool uncertain, absent, ignored;
	_cleanup_free_ uint8_t *wanted = match_functions(s, o->function, &uncertain, &absent),
			       *outer = match_functions(s, per, &ignored, &ignored);
	struct open_calls open = { .at = NULL };
	int rc = wanted && outer ? 0 : -ENOMEM;

	*ret = (struct measure){ .absent = absent };
	if (rc == 0 && uncertain && o->metric == MEASURE_CALLS)
		ret->unknown = UNCERTAIN;
	for (size_t i = 0; rc == 0 && !ret->unknown && i < store_threads(s); i++) {
		struct sum sum = { .store = s, .options = o, .wanted = wanted, .thread = i };

		open.n = 0;
		rc = measure_thread(&sum, outer, &open, sink, &ret->cut);
	}
	free(open.at);
	return rc < 0 ? rc : 0;
}
