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
static const char UNCERTAIN_CALLER[] = "its caller is inlined, and where some calls of that begin is not known";

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

struct totals {
	uint64_t calls, instructions, ns;
	uint64_t bound;   /* of ns, where it is known */
	uint64_t unbound; /* calls of which it is not */
};

/* A sum in one thread, while its events are read. */
struct sum {
	const struct store *store;
	const struct measure_options *options;
	const uint8_t *wanted;
	size_t thread;
	struct totals all;     /* calls: entered; the others: of calls that ended */
	bool interrupted;      /* a gap or another stack followed: a call that was open before may be entered again */
	bool open;             /* a call of a wanted function is open */
	uint32_t depth;        /* depth of the open call */
	uint64_t enter, begin; /* time and instruction count at which the open call was entered */
};

/* Adds the time and instructions from a place to an event. */
static void add_part(const struct sum *s, uint64_t enter, uint64_t begin, const struct store_event *e,
		     struct totals *to)
{
	uint64_t bound = s->options->nominal ? 0 : store_duration_bound(s->store, s->thread, enter, e->time);

	to->ns += e->time - enter;
	to->instructions += e->instructions - begin;
	if (bound == UINT64_MAX)
		to->unbound++;
	else
		to->bound += bound;
}

static void sum_event(struct sum *s, const struct store_event *e)
{
	s->interrupted |= e->type == STORE_GAP || (e->type == STORE_LEAVE && e->kind == LEAVE_SWITCH);
	if ((e->type != STORE_ENTER && e->type != STORE_LEAVE) || e->frame.piece || !s->wanted[e->frame.function])
		return;
	if (e->type == STORE_ENTER) {
		s->all.calls += !calls_kind_is_resumed(e->kind) && (e->kind != CALL_INFERRED || !s->interrupted);
		if (s->open)
			return;
		s->open = true;
		s->depth = e->depth;
		s->enter = e->time;
		s->begin = e->instructions;
	} else if (s->open && e->depth == s->depth) {
		s->open = false;
		add_part(s, s->enter, s->begin, e, &s->all);
	}
}

static struct measure value_of(const struct measure_options *o, const struct totals *t)
{
	struct measure m = { .calls = t->calls };

	m.low = m.high = o->metric == MEASURE_INSTRUCTIONS ? t->instructions : t->calls;
	if (o->metric == MEASURE_TOTAL) {
		m.low = t->unbound ? 0 : t->ns - MIN(t->ns, t->bound);
		m.high = t->unbound ? UINT64_MAX : add_saturating(t->ns, t->bound);
	}
	return m;
}

static int sum_function(const struct store *s, const struct measure_options *o, const uint8_t *wanted,
			struct measure *ret)
{
	struct store_event e = { 0 };
	uint64_t gaps = 0;

	for (size_t i = 0; i < store_threads(s); i++)
		gaps += store_thread(s, i)->gaps;
	/* Those that were open when the trace began count, too. */
	for (size_t i = 0; i < store_functions(s); i++)
		ret->calls += wanted[i] ? store_function(s, i)->calls : 0;
	ret->low = ret->high = o->metric == MEASURE_CALLS && !gaps ? ret->calls : 0;
	for (size_t i = 0; i < store_threads(s) && (o->metric != MEASURE_CALLS || gaps); i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		struct sum sum = { .store = s, .options = o, .wanted = wanted, .thread = i };
		struct measure m;
		int rc = store_iter_new(s, i, &it);

		while (rc == 0 && (rc = store_iter_next(it, &e)) == 1) {
			sum_event(&sum, &e);
			rc = 0;
		}
		if (rc < 0)
			return rc;
		if (sum.open)
			add_part(&sum, sum.enter, sum.begin, &e, &sum.all);
		m = value_of(o, &sum.all);
		ret->low += m.low;
		ret->high = add_saturating(ret->high, m.high);
	}
	if (gaps)
		ret->high = UINT64_MAX;
	/* A call that is open behind a gap may be one from before it: what is certain are those that began in the
	 * trace. */
	if (gaps && o->metric == MEASURE_CALLS)
		ret->low = MAX(ret->low, MIN(ret->calls, (uint64_t)1));
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
	o->bound = add_saturating(o->bound, o->nominal ? 0 : c->bound);
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
	uint64_t calls = 0;

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < store_functions(s); i++)
		calls += wanted[i] ? store_function(s, i)->calls : 0;
	/* A call that several gaps cut has a part before and after each. */
	*ret =
	    (struct measure){ .calls = all.whole, .cut = MAX(calls - MIN(calls, all.whole), (uint64_t)(all.cut > 0)) };
	if (!all.whole && !(o->metric == MEASURE_MAX && all.cut))
		ret->unknown = "no call was traced from its begin to its end";
	if (ret->unknown)
		return 0;
	switch (o->metric) {
	case MEASURE_MEAN:
		ret->low = (all.ns - MIN(all.ns, all.bound)) / all.whole;
		ret->high = add_saturating(all.ns, all.bound);
		if (ret->high != UINT64_MAX)
			ret->high = ret->high / all.whole + (ret->high % all.whole != 0);
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

/* What had been summed when a call of CALLER began, and whether that call is within a call that is summed. */
struct begun_call {
	struct totals before;
	bool within;
};

/* A call of CALLER, inlined, of which more pieces may follow while the function that it is in is open. */
struct held_caller {
	size_t place; /* depth of the stack up to that function */
	uint32_t function;
	uint64_t enter;
	struct totals all;
	struct store_event last; /* the end of its last piece, as one of the first */
};

/* Measures within each call of CALLER in a thread. */
struct per_caller {
	struct sum sum;
	const uint8_t *outer;
	const struct measure_sink *sink;
	struct store_iter *it;
	struct begun_call *begun; /* by depth */
	size_t n_begun, cap_begun;
	struct held_caller *held; /* by place */
	size_t n_held, cap_held;
	uint64_t judged;
};

static int begin_call(struct per_caller *p, uint32_t depth)
{
	while (p->n_begun <= depth) {
		if (array_reserve(p->begun, p->n_begun, &p->cap_begun) < 0)
			return -ENOMEM;
		p->begun[p->n_begun++] = (struct begun_call){ .within = false };
	}
	p->begun[depth] = (struct begun_call){ p->sum.all, p->sum.open };
	return 0;
}

/* Sums what lies within a call, or piece of one, that is left. */
static struct totals sum_within(const struct per_caller *p, const struct store_event *e)
{
	const struct begun_call *b = &p->begun[e->depth];
	const struct totals *now = &p->sum.all;
	struct totals t = { .calls = now->calls - b->before.calls };

	/* A call around it stays open until it has been left. */
	if (b->within) {
		add_part(&p->sum, e->frame.enter, e->frame.instructions, e, &t);
		return t;
	}
	t.instructions = now->instructions - b->before.instructions;
	t.ns = now->ns - b->before.ns;
	t.bound = now->bound - b->before.bound;
	t.unbound = now->unbound - b->before.unbound;
	return t;
}

static int judge(struct per_caller *p, const struct store_event *leave, const struct totals *t, uint64_t enter)
{
	struct measure m = value_of(p->sum.options, t);

	if (!store_is_whole(leave))
		return 0;
	p->judged++;
	return p->sink->call(p->sink->user, &m, enter, store_thread(p->sum.store, p->sum.thread)->tid);
}

/* Judges a held call, and removes it. */
static int judge_held(struct per_caller *p, size_t index)
{
	const struct held_caller h = p->held[index];

	p->n_held--;
	memmove(&p->held[index], &p->held[index + 1], (p->n_held - index) * sizeof(*p->held));
	return judge(p, &h.last, &h.all, h.enter);
}

static void add_totals(struct totals *to, const struct totals *t)
{
	to->calls += t->calls;
	to->instructions += t->instructions;
	to->ns += t->ns;
	to->bound += t->bound;
	to->unbound += t->unbound;
}

/* Handles the leave of an inlined call of CALLER, or of a piece of one. */
static int leave_inlined(struct per_caller *p, const struct store_event *e)
{
	struct totals t = sum_within(p, e);
	size_t place = store_iter_place(p->it), i = p->n_held;
	int rc = 0;

	while (i && p->held[i - 1].place >= place && p->held[i - 1].function != e->frame.function)
		i--;
	if (i && p->held[i - 1].place < place)
		i = 0;
	if (e->frame.kind == CALL_RESUMED) {
		/* The call of a piece alone began before the trace, or is unknown. */
		if (!i)
			return 0;
		add_totals(&p->held[i - 1].all, &t);
		p->held[i - 1].last.kind = e->kind;
		return 0;
	}
	if (i)
		rc = judge_held(p, i - 1);
	if (rc != 0 || !place)
		return rc != 0 ? rc : judge(p, e, &t, e->frame.enter);
	if (array_reserve(p->held, p->n_held, &p->cap_held) < 0)
		return -ENOMEM;
	p->held[p->n_held++] = (struct held_caller){ place, e->frame.function, e->frame.enter, t, *e };
	return 0;
}

static int per_leave(struct per_caller *p, const struct store_event *e)
{
	bool inlined = e->frame.site != STORE_NO_SITE;
	struct totals t;
	int rc = 0;

	while (rc == 0 && !inlined && p->n_held && p->held[p->n_held - 1].place > e->depth)
		rc = judge_held(p, p->n_held - 1);
	if (rc != 0 || e->frame.piece || !p->outer[e->frame.function] || e->depth >= p->n_begun)
		return rc;
	if (inlined)
		return leave_inlined(p, e);
	t = sum_within(p, e);
	return judge(p, e, &t, e->frame.enter);
}

/* Returns 0, 1 if the sink has ended the measurement, or negative errno. */
static int measure_thread(struct per_caller *p)
{
	struct store_event e;
	int rc = store_iter_new(p->sum.store, p->sum.thread, &p->it);

	while (rc == 0 && (rc = store_iter_next(p->it, &e)) == 1) {
		rc = 0;
		/* A call of both functions is not one within itself. */
		if (e.type == STORE_LEAVE)
			rc = per_leave(p, &e);
		sum_event(&p->sum, &e);
		if (e.type == STORE_ENTER && !e.frame.piece && p->outer[e.frame.function])
			rc = begin_call(p, e.depth);
	}
	while (rc == 0 && p->n_held)
		rc = judge_held(p, p->n_held - 1);
	p->it = store_iter_free(p->it);
	return rc;
}

int measure_per_call(const struct store *s, const struct measure_options *o, const char *per,
		     const struct measure_sink *sink, struct measure *ret)
{
	bool uncertain, uncertain_outer, absent, ignored;
	_cleanup_free_ uint8_t *wanted = match_functions(s, o->function, &uncertain, &absent),
			       *outer = match_functions(s, per, &uncertain_outer, &ignored);
	struct per_caller p = { .outer = outer, .sink = sink };
	int rc = wanted && outer ? 0 : -ENOMEM;

	*ret = (struct measure){ .absent = absent };
	if (rc == 0 && uncertain && o->metric == MEASURE_CALLS)
		ret->unknown = UNCERTAIN;
	if (rc == 0 && uncertain_outer)
		ret->unknown = UNCERTAIN_CALLER;
	for (size_t i = 0; rc == 0 && !ret->unknown && i < store_threads(s); i++) {
		p.sum = (struct sum){ .store = s, .options = o, .wanted = wanted, .thread = i };
		p.n_begun = p.n_held = 0;
		rc = measure_thread(&p);
	}
	for (size_t i = 0; rc == 0 && !ret->unknown && i < store_functions(s); i++)
		ret->cut += outer[i] ? store_function(s, i)->calls : 0;
	ret->cut -= MIN(ret->cut, p.judged);
	free(p.begun);
	free(p.held);
	return rc < 0 ? rc : 0;
}
