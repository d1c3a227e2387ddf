/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/comparison.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* Runs differ by more than parts of one run do, such as where threads wait for each other: so many times the noise. */
enum { RUNS = 2 };

/* Times change from run to run by more than within one: a change must exceed this many times the typical one. */
enum { TIME_CHANGES = 3 };

#define NO_PAIR UINT32_MAX

static const struct behaviour_function *function_of(const struct comparison *c, unsigned side, size_t index)
{
	return &c->sides[side].functions[index];
}

static size_t index_of(const struct comparison *c, unsigned side, const struct behaviour_function *f)
{
	return (size_t)(f - c->sides[side].functions);
}

/* Adds a pair; either may be NULL. */
static void add_pair(struct comparison *c, const struct behaviour_function *a, const struct behaviour_function *b)
{
	if (a)
		c->pair_of[0][index_of(c, 0, a)] = (uint32_t)c->n_pairs;
	if (b)
		c->pair_of[1][index_of(c, 1, b)] = (uint32_t)c->n_pairs;
	c->pairs[c->n_pairs++] = (struct compared_pair){ .side = { a, b } };
}

struct unmatched {
	const struct behaviour_function *function;
	unsigned side;
};

static int compare_unmatched(const void *left, const void *right)
{
	const struct unmatched *a = left, *b = right;
	int order = strcmp(a->function->name, b->function->name);

	return order ? order : (a->side > b->side) - (a->side < b->side);
}

/* Pairs the functions without partner whose name only one of each side has; the others stay alone. */
static int pair_by_name(struct comparison *c)
{
	size_t n = 0, end, all = c->sides[0].n_functions + c->sides[1].n_functions;
	_cleanup_free_ struct unmatched *list = calloc(all + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (unsigned side = 0; side < 2; side++)
		for (size_t i = 0; i < c->sides[side].n_functions; i++)
			if (c->pair_of[side][i] == NO_PAIR && function_of(c, side, i)->calls)
				list[n++] = (struct unmatched){ function_of(c, side, i), side };
	qsort(list, n, sizeof(*list), compare_unmatched);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && strcmp(list[i].function->name, list[end].function->name) == 0;)
			end++;
		if (end - i == 2 && list[i].side != list[i + 1].side) {
			add_pair(c, list[i].function, list[i + 1].function);
			continue;
		}
		for (size_t k = i; k < end; k++)
			add_pair(c, list[k].side ? NULL : list[k].function, list[k].side ? list[k].function : NULL);
	}
	return 0;
}

static int make_pairs(struct comparison *c)
{
	size_t all = c->sides[0].n_functions + c->sides[1].n_functions;

	c->pairs = calloc(all + 1, sizeof(*c->pairs));
	for (unsigned side = 0; side < 2; side++) {
		c->pair_of[side] = malloc((c->sides[side].n_functions + 1) * sizeof(*c->pair_of[side]));
		if (!c->pair_of[side] || !c->pairs)
			return -ENOMEM;
		for (size_t i = 0; i < c->sides[side].n_functions; i++)
			c->pair_of[side][i] = NO_PAIR;
	}
	for (size_t i = 0; i < c->sides[0].n_functions; i++) {
		const struct behaviour_function *a = function_of(c, 0, i), *b = behaviour_find(&c->sides[1], a);

		if (a->calls && b && b->calls)
			add_pair(c, a, b);
	}
	return pair_by_name(c);
}

/* Computes the spread of sums per call, over the batches that have calls. */
static void spread_per_call(const uint64_t *sums, const uint64_t *calls, struct spread *ret)
{
	double values[SPREAD_BATCHES];
	unsigned n = 0;

	for (unsigned i = 0; i < SPREAD_BATCHES; i++)
		if (calls[i])
			values[n++] = (double)sums[i] / (double)calls[i];
	spread_of(values, n, ret);
}

/* Computes the spread of the number of calls along an edge per call of its caller. e: NULL if there are none. */
static void spread_edge(const struct behaviour_edge *e, const struct behaviour_batches *caller, enum behaviour_set set,
			struct spread *ret)
{
	uint64_t sums[SPREAD_BATCHES] = { 0 };

	for (unsigned i = 0; e && i < SPREAD_BATCHES; i++)
		sums[i] = e->n[set][i];
	spread_per_call(sums, caller->n, ret);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* Returns the share of both traces that a cost in each call of a function is. */
static double cost_share(const struct comparison *c, const struct compared_pair *p, double cost, bool time)
{
	const struct behaviour *a = &c->sides[0], *b = &c->sides[1];

	return cost *
	       (share(p->side[0]->calls, time ? a->ns : a->instructions) +
		share(p->side[1]->calls, time ? b->ns : b->instructions)) /
	       2;
}

double comparison_relative(const struct change *change)
{
	double delta = change->b - change->a;

	return delta == 0 ? 0 : change->a > 0 ? delta / change->a : INFINITY;
}

static uint64_t least_calls(const struct compared_pair *p, enum behaviour_set set)
{
	return MIN(p->side[0]->sets[set].whole, p->side[1]->sets[set].whole);
}

/*
 * True if there are enough calls. A function with few calls may run as long as the program: if it calls others more
 * often on one side, that side ran longer, and figures per call say nothing.
 */
static bool has_calls(const struct comparison *c, const struct compared_pair *p)
{
	const struct behaviour_function *a = p->side[0], *b = p->side[1];
	double calls_a, calls_b;

	if (!a->whole || !b->whole)
		return false;
	if (least_calls(p, p->set) >= SPREAD_BATCHES)
		return true;
	calls_a = (double)a->made / (double)a->whole;
	calls_b = (double)b->made / (double)b->whole;
	return fabs(calls_b - calls_a) <= c->threshold * MIN(calls_a, calls_b);
}

static bool synchronises(const struct compared_pair *p)
{
	return (p->side[0] && p->side[0]->synchronises) || (p->side[1] && p->side[1]->synchronises);
}

/* Decides on a change in the calls of a function; amount: what it amounts to. */
static bool is_difference(const struct comparison *c, const struct change *change, const struct compared_pair *p,
			  double amount)
{
	double delta = fabs(change->b - change->a);
	uint64_t calls = least_calls(p, p->set);

	/* The fewer the calls, the larger a difference must be: in few calls, what differs from run to run shows. */
	return !synchronises(p) && has_calls(c, p) && delta > change->noise && delta > c->threshold * change->a &&
	       delta > MAX(change->a, change->b) / (double)(calls + 1) && amount > c->threshold / COMPARISON_SHARES;
}

static struct change make_change(enum change_kind kind, const struct spread *a, const struct spread *b,
				 double comparisons)
{
	return (
	    struct change){ .kind = kind, .a = a->mean, .b = b->mean, .noise = RUNS * spread_noise(a, b, comparisons) };
}

static void compare_functions(struct comparison *c, struct compared_pair *p, double comparisons)
{
	const struct behaviour_batches *a, *b;
	struct spread spreads[2][2];

	p->set = least_calls(p, BEHAVIOUR_UNWAITED) >= SPREAD_BATCHES ? BEHAVIOUR_UNWAITED : BEHAVIOUR_ALL;
	a = &p->side[0]->sets[p->set];
	b = &p->side[1]->sets[p->set];
	spread_per_call(a->instructions, a->n, &spreads[0][0]);
	spread_per_call(b->instructions, b->n, &spreads[0][1]);
	spread_per_call(a->ns, a->n, &spreads[1][0]);
	spread_per_call(b->ns, b->n, &spreads[1][1]);
	p->instructions = make_change(CHANGE_INSTRUCTIONS, &spreads[0][0], &spreads[0][1], comparisons);
	p->time = make_change(CHANGE_TIME, &spreads[1][0], &spreads[1][1], comparisons);
	p->time.instructions = p->instructions.instructions =
	    cost_share(c, p, fabs(p->instructions.b - p->instructions.a), false);
	p->time.time = p->instructions.time = cost_share(c, p, fabs(p->time.b - p->time.a), true);
	p->time.pair = p->instructions.pair = (uint32_t)(p - c->pairs);
	p->instructions.differs = is_difference(c, &p->instructions, p, p->instructions.instructions);
}

/* Sets the figures of a function that ran on one side only; that is a difference if it is a part of all that ran. */
static void set_alone(struct comparison *c, struct compared_pair *p)
{
	const struct behaviour_function *f = p->side[0] ? p->side[0] : p->side[1];
	double part = share(f->self_instructions, c->sides[!p->side[0]].instructions);
	struct spread spread;

	spread_per_call(f->sets[BEHAVIOUR_ALL].instructions, f->sets[BEHAVIOUR_ALL].n, &spread);
	p->instructions = (struct change){ .kind = CHANGE_INSTRUCTIONS,
					   .pair = (uint32_t)(p - c->pairs),
					   .a = p->side[0] ? spread.mean : 0,
					   .b = p->side[1] ? spread.mean : 0,
					   .instructions = part,
					   .differs = part > c->threshold && !f->waits && !synchronises(p) };
}

static int compare_bounds(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

uint64_t comparison_bound(const struct behaviour_function *f)
{
	const struct behaviour_batches *all = &f->sets[BEHAVIOUR_ALL];
	uint64_t bounds[SPREAD_BATCHES];
	unsigned n = 0;

	for (unsigned i = 0; i < SPREAD_BATCHES; i++)
		if (all->n[i])
			bounds[n++] = all->bounds[i];
	if (!n)
		return 0;
	qsort(bounds, n, sizeof(*bounds), compare_bounds);
	return add_saturating(bounds[n / 2], bounds[n / 2]);
}

/* A time can be compared if it is no wait and, on both sides, longer than its error. */
static bool has_known_times(const struct compared_pair *p)
{
	return p->side[0] && p->side[1] && !p->side[0]->waits && p->time.a > 0 && p->time.b > 0 &&
	       p->time.a >= (double)comparison_bound(p->side[0]) && p->time.b >= (double)comparison_bound(p->side[1]);
}

static int compare_values(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Decides on changes of times, beside the typical change of all. */
static int compare_times(struct comparison *c)
{
	_cleanup_free_ double *changes = calloc(c->n_pairs + 1, sizeof(*changes));
	double typical;
	size_t n = 0;

	if (!changes)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_pairs; i++)
		if (has_known_times(&c->pairs[i]))
			changes[n++] = fabs(log(c->pairs[i].time.b / c->pairs[i].time.a));
	if (!n)
		return 0;
	qsort(changes, n, sizeof(*changes), compare_values);
	typical = expm1(changes[n / 2]);
	for (size_t i = 0; i < c->n_pairs; i++) {
		struct compared_pair *p = &c->pairs[i];

		if (!has_known_times(p))
			continue;
		p->time.noise = MAX(p->time.noise, TIME_CHANGES * typical * p->time.a);
		p->time.differs = is_difference(c, &p->time, p, p->time.time);
	}
	return 0;
}

/* Compares the calls that a caller on both sides makes of one callee. Either edge may be NULL. */
static int compare_calls(struct comparison *c, const struct behaviour_edge *a, const struct behaviour_edge *b,
			 double comparisons)
{
	const struct behaviour_edge *one = a ? a : b;
	unsigned side = !a;
	uint32_t caller = c->pair_of[side][one->caller], callee = c->pair_of[side][one->callee];
	const struct compared_pair *p = &c->pairs[caller];
	const struct behaviour_function *called = function_of(c, side, one->callee);
	double cost = share(called->whole_instructions, called->whole);
	struct spread spread_a, spread_b;
	struct change change;

	/* In a forged file, the totals of a function that was called can say that it was not. */
	if (callee == NO_PAIR)
		return 0;
	if (array_reserve(c->calls, c->n_calls, &c->cap_calls) < 0)
		return -ENOMEM;
	spread_edge(a, &p->side[0]->sets[p->set], p->set, &spread_a);
	spread_edge(b, &p->side[1]->sets[p->set], p->set, &spread_b);
	change = make_change(CHANGE_CALLS, &spread_a, &spread_b, comparisons);
	change.pair = callee;
	change.caller = caller;
	change.instructions = cost_share(c, p, fabs(change.b - change.a) * cost, false);
	change.time =
	    cost_share(c, p, fabs(change.b - change.a) * share(called->total_ns, MAX(called->calls, 1u)), true);
	change.differs = !synchronises(&c->pairs[callee]) && least_calls(p, p->set) >= SPREAD_BATCHES &&
			 is_difference(c, &change, p, change.instructions);
	c->calls[c->n_calls++] = change;
	return 0;
}

/* Returns the function of the other side in a pair, or NULL. */
static const struct behaviour_function *partner(const struct comparison *c, unsigned side, uint32_t function)
{
	uint32_t pair = c->pair_of[side][function];

	return pair == NO_PAIR ? NULL : c->pairs[pair].side[!side];
}

static int compare_edges(struct comparison *c, unsigned side, double comparisons)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->sides[side].n_edges; i++) {
		const struct behaviour_edge *e = &c->sides[side].edges[i], *other = NULL;
		const struct behaviour_function *caller = partner(c, side, e->caller),
						*callee = partner(c, side, e->callee);

		if (caller && callee)
			other = behaviour_find_edge(&c->sides[!side], index_of(c, !side, caller),
						    index_of(c, !side, callee));
		if (caller && side == 0)
			rc = compare_calls(c, e, other, comparisons);
		else if (caller && !other)
			rc = compare_calls(c, NULL, e, comparisons);
	}
	return rc;
}

int comparison_make(struct comparison *ret, const struct store *a, const struct store *b)
{
	double comparisons = 0;
	int rc = behaviour_read(a, &ret->sides[0]);

	if (rc == 0)
		rc = behaviour_read(b, &ret->sides[1]);
	if (rc == 0)
		rc = make_pairs(ret);
	if (rc < 0)
		return rc;
	comparisons = 2 * (double)ret->n_pairs + (double)MAX(ret->sides[0].n_edges, ret->sides[1].n_edges);
	for (size_t i = 0; i < ret->n_pairs; i++)
		if (ret->pairs[i].side[0] && ret->pairs[i].side[1])
			compare_functions(ret, &ret->pairs[i], comparisons);
		else
			set_alone(ret, &ret->pairs[i]);
	rc = compare_times(ret);
	for (unsigned side = 0; rc == 0 && side < 2; side++)
		rc = compare_edges(ret, side, comparisons);
	return rc;
}

void comparison_done(struct comparison *c)
{
	for (unsigned side = 0; side < 2; side++) {
		behaviour_done(&c->sides[side]);
		free(c->pair_of[side]);
	}
	free(c->pairs);
	free(c->calls);
}
