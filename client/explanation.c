/* SPDX-License-Identifier: MIT */
#include "client/explanation.h"

#include <stdlib.h>
#include <string.h>

#include "client/library-code.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* Percentages. */
enum {
	NEARLY_ALL = 80, /* of a function is in one that it calls: the chain of a line continues there */
	MOST = 50,
	LEAST_LINE = 1, /* of the whole difference: what has a line of its own */
};

/* A range of the lines made so far. */
struct line_range {
	size_t from, to;
};

static const struct call_node *node_of(const struct explanation *e, uint32_t node)
{
	return &e->tree->nodes[node];
}

static int64_t diff(uint64_t slow, uint64_t typical)
{
	return (int64_t)(slow - typical);
}

static int64_t magnitude(int64_t v)
{
	return v == INT64_MIN ? INT64_MAX : v < 0 ? -v : v;
}

/* Sums of times that a damaged store makes up may overflow. */
static void add_to(int64_t *sum, int64_t v)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)v);
}

/* True if part is at least so many percent of whole, and of the same sign. */
static bool is_share(int64_t part, int64_t whole, int percent)
{
	return (part < 0) == (whole < 0) && (double)magnitude(part) * 100 >= (double)magnitude(whole) * percent;
}

static int64_t total_diff(const struct explanation *e, uint32_t node)
{
	const struct call_figures *side = node_of(e, node)->side;

	return diff(side[CALL_TREE_SLOW].total, side[CALL_TREE_TYPICAL].total);
}

static int64_t wait_diff(const struct explanation *e, uint32_t node)
{
	const struct call_figures *side = node_of(e, node)->side;

	return diff(side[CALL_TREE_SLOW].wait, side[CALL_TREE_TYPICAL].wait);
}

const struct store_function *explanation_function(const struct explanation *e, uint32_t node)
{
	return store_function(e->tree->list->store, node_of(e, node)->function);
}

static bool is_library(const struct explanation *e, uint32_t node)
{
	return node != CALL_TREE_ROOT && e->is_library[node_of(e, node)->function];
}

/* Returns the nearest function above a node that is the program's own; it may be the root. */
static uint32_t own_above(const struct explanation *e, uint32_t node)
{
	while (node != CALL_TREE_ROOT) {
		node = node_of(e, node)->parent;
		if (!is_library(e, node))
			break;
	}
	return node;
}

/* Returns the child that holds nearly all of the difference of a node, or CALL_TREE_NONE. */
static uint32_t main_child(const struct explanation *e, uint32_t node, int percent)
{
	int64_t whole = total_diff(e, node);

	for (uint32_t c = node_of(e, node)->first_child; c != CALL_TREE_NONE; c = node_of(e, c)->sibling)
		if (is_share(total_diff(e, c), whole, percent))
			return c;
	return CALL_TREE_NONE;
}

/* Returns the last of the chain of functions that each hold nearly all of the one before; without library code. */
static uint32_t deepest_of(const struct explanation *e, uint32_t node)
{
	uint32_t deepest = node;

	for (uint32_t at = node; at != CALL_TREE_NONE; at = main_child(e, at, NEARLY_ALL))
		if (!is_library(e, at))
			deepest = at;
	return deepest;
}

/* Returns the system call that holds most of the wait of a node, or CALL_TREE_NONE. */
static uint32_t syscall_of(const struct explanation *e, uint32_t node)
{
	while (node != CALL_TREE_NONE) {
		const struct store_function *f = explanation_function(e, node);
		uint32_t next = CALL_TREE_NONE;

		if (f->kind == REGION_SYSCALL)
			return node;
		for (uint32_t c = node_of(e, node)->first_child; c != CALL_TREE_NONE; c = node_of(e, c)->sibling)
			if (wait_diff(e, c) &&
			    (next == CALL_TREE_NONE || magnitude(wait_diff(e, c)) > magnitude(wait_diff(e, next))))
				next = c;
		node = next;
	}
	return CALL_TREE_NONE;
}

static int push_line(struct explanation *e, const struct explained_line *line)
{
	if (!line->difference)
		return 0;
	if (array_reserve(e->lines, e->n, &e->cap) < 0)
		return -ENOMEM;
	e->lines[e->n++] = *line;
	return 0;
}

/* The outermost library function between the root and a node: what the root itself has called. */
static uint32_t called_by_root(const struct explanation *e, uint32_t node)
{
	while (node_of(e, node)->parent != CALL_TREE_ROOT)
		node = node_of(e, node)->parent;
	return node;
}

/* Makes a line of a node with all that is beneath it. */
static struct explained_line line_of(const struct explanation *e, uint32_t node, enum explained_kind kind)
{
	struct explained_line line = {
		.kind = kind, .node = node, .named = node, .caller = CALL_TREE_NONE, .places = 1
	};
	uint32_t above = node == CALL_TREE_ROOT ? CALL_TREE_NONE : own_above(e, node);

	line.difference = total_diff(e, node);
	line.wait = wait_diff(e, node);
	for (unsigned side = 0; side < CALL_TREE_SIDES; side++) {
		line.value[side] = node_of(e, node)->side[side].total;
		line.calls[side] = node_of(e, node)->side[side].calls;
	}
	line.deepest = deepest_of(e, node);
	line.syscall = is_share(line.wait, line.difference, MOST) ? syscall_of(e, node) : CALL_TREE_NONE;
	if (is_library(e, node) || kind == EXPLAINED_MORE || kind == EXPLAINED_FEWER)
		line.caller = above;
	if (!is_library(e, node) || line.syscall == CALL_TREE_NONE)
		return line;
	/* Library functions only pass a wait on: the program's own function asked for it. */
	line.kind = EXPLAINED_WAIT;
	line.named = above == CALL_TREE_ROOT ? called_by_root(e, node) : above;
	return line;
}

/* Makes a line of a node alone: of its own code, or of what is cut beneath it. */
static struct explained_line part_line(const struct explanation *e, uint32_t node, enum explained_kind kind)
{
	struct explained_line line = line_of(e, node, kind);

	line.kind = kind;
	line.named = line.deepest = node;
	line.syscall = CALL_TREE_NONE;
	line.wait = 0;
	for (unsigned side = 0; side < CALL_TREE_SIDES; side++) {
		const struct call_figures *figures = &node_of(e, node)->side[side];

		line.value[side] = kind == EXPLAINED_CUT ? figures->cut : figures->self;
	}
	line.difference = diff(line.value[CALL_TREE_SLOW], line.value[CALL_TREE_TYPICAL]);
	return line;
}

/* Returns true if the number of calls accounts for most of the difference of a node. */
static bool is_of_calls(const struct explanation *e, uint32_t node, int64_t whole)
{
	const struct call_figures *slow = &node_of(e, node)->side[CALL_TREE_SLOW],
				  *typical = &node_of(e, node)->side[CALL_TREE_TYPICAL];
	double calls = (double)diff(slow->calls, typical->calls), each;

	if (!slow->calls || !typical->calls || slow->calls == typical->calls)
		return false;
	/* How a library does what it is called for so often does not matter. */
	if (is_library(e, node) && !is_library(e, node_of(e, node)->parent) &&
	    MAX(slow->calls, typical->calls) >= 2 * MIN(slow->calls, typical->calls))
		return (calls < 0) == (whole < 0);
	each = (double)typical->total / (double)typical->calls;
	return is_share((int64_t)(calls * each), whole, MOST);
}

/*
 * Returns true if a node is to be one line, and its kind. Where calls took longer each, what is beneath explains more;
 * so it does for a library function that mainly calls back, such as qsort().
 */
static bool is_one_line(const struct explanation *e, uint32_t node, enum explained_kind *ret)
{
	const struct call_node *n = node_of(e, node);
	const struct call_figures *slow = &n->side[CALL_TREE_SLOW], *typical = &n->side[CALL_TREE_TYPICAL];
	const struct store_function *f = explanation_function(e, node);
	int64_t whole = total_diff(e, node);

	if (f->kind == REGION_SYSCALL) {
		*ret = EXPLAINED_SELF;
		return true;
	}
	if (is_library(e, node) && is_share(e->own_diff[node], whole, MOST))
		return false;
	if (!typical->calls && !typical->total)
		*ret = EXPLAINED_ONLY;
	else if (!slow->calls && !slow->total)
		*ret = EXPLAINED_MISSING;
	else if (is_of_calls(e, node, whole))
		*ret = slow->calls > typical->calls ? EXPLAINED_MORE : EXPLAINED_FEWER;
	else
		return false;
	return true;
}

/* The state of merging the lines of a range that is_gathered() selects into one. */
struct gathering {
	int64_t all, sum; /* differences of all lines, and of those selected */
	int64_t largest, largest_of_all;
	enum explained_kind kind; /* of the largest one selected */
	size_t n;
	struct explained_line line; /* with the sums */
};

/*
 * Returns true for a line of library code beneath a library function, and, beneath one of the program's own functions,
 * for its own code and what it calls directly.
 */
static bool is_gathered(const struct explanation *e, uint32_t node, const struct explained_line *line)
{
	if (line->kind == EXPLAINED_WAIT)
		return false;
	if (is_library(e, node))
		return is_library(e, line->node);
	if (line->node == node)
		return true;
	return own_above(e, line->node) == node && (is_library(e, line->node) || line->kind != EXPLAINED_SELF) &&
	       line->kind != EXPLAINED_LONGER;
}

static void gather(const struct explanation *e, uint32_t node, struct line_range range, struct gathering *g)
{
	*g = (struct gathering){ .line = line_of(e, node, EXPLAINED_LONGER) };
	g->line.kind = EXPLAINED_LONGER;
	g->line.named = g->line.deepest = node;
	g->line.syscall = CALL_TREE_NONE;
	g->line.wait = g->line.difference = 0;
	g->line.value[0] = g->line.value[1] = 0;
	for (size_t i = range.from; i < range.to; i++) {
		const struct explained_line *line = &e->lines[i];

		add_to(&g->all, line->difference);
		g->largest_of_all = MAX(g->largest_of_all, magnitude(line->difference));
		if (!is_gathered(e, node, line))
			continue;
		g->n++;
		add_to(&g->line.difference, line->difference);
		add_to(&g->line.wait, line->wait);
		for (unsigned side = 0; side < CALL_TREE_SIDES; side++)
			g->line.value[side] += line->value[side];
		if (magnitude(line->difference) <= g->largest)
			continue;
		g->largest = magnitude(line->difference);
		g->kind = line->kind;
	}
	g->sum = g->line.difference;
}

/* Gathers lines if none of them says more than that the function took longer. */
static int gather_lines(struct explanation *e, uint32_t node, struct line_range range)
{
	struct gathering g;
	size_t to = range.from;
	bool diffuse;

	gather(e, node, range, &g);
	if (is_library(e, node))
		diffuse = g.kind == EXPLAINED_LONGER || g.kind == EXPLAINED_SELF ||
			  !is_share(g.largest, magnitude(g.sum), MOST);
	else
		diffuse =
		    g.n > 1 && is_share(g.sum, g.all, MOST) && !is_share(g.largest_of_all, magnitude(g.all), MOST);
	if (!g.n || !diffuse)
		return 0;
	for (size_t i = range.from; i < range.to; i++)
		if (!is_gathered(e, node, &e->lines[i]))
			e->lines[to++] = e->lines[i];
	e->n = to;
	return push_line(e, &g.line);
}

/* Adds lines for the difference of a node. The depth of the tree bounds the recursion. */
static int explain_node(struct explanation *e, uint32_t node)
{
	enum explained_kind kind;
	struct explained_line line;
	size_t from = e->n;
	int rc;

	if (is_one_line(e, node, &kind)) {
		line = line_of(e, node, kind);
		return push_line(e, &line);
	}
	line = part_line(e, node, EXPLAINED_SELF);
	rc = push_line(e, &line);
	line = part_line(e, node, EXPLAINED_CUT);
	if (rc == 0)
		rc = push_line(e, &line);
	for (uint32_t c = node_of(e, node)->first_child; rc == 0 && c != CALL_TREE_NONE; c = node_of(e, c)->sibling)
		rc = explain_node(e, c);
	return rc == 0 && node != CALL_TREE_ROOT ? gather_lines(e, node, (struct line_range){ from, e->n }) : rc;
}

static uint32_t function_of(const struct explanation *e, uint32_t node)
{
	return node == CALL_TREE_NONE ? CALL_TREE_NONE : node_of(e, node)->function;
}

/*
 * Returns the kind by which lines are merged. In lines of several paths, EXPLAINED_MORE includes EXPLAINED_ONLY, and
 * EXPLAINED_FEWER includes EXPLAINED_MISSING.
 */
static enum explained_kind class_of(const struct explained_line *line)
{
	return line->kind == EXPLAINED_ONLY      ? EXPLAINED_MORE
	       : line->kind == EXPLAINED_MISSING ? EXPLAINED_FEWER
						 : line->kind;
}

static int compare_numbers(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

/* Orders lines that say the same of one function next to each other. */
static int compare_subjects(const struct explanation *e, const struct explained_line *a, const struct explained_line *b)
{
	int order = compare_numbers(class_of(a), class_of(b));

	if (!order)
		order = compare_numbers(function_of(e, a->named), function_of(e, b->named));
	if (!order)
		order = compare_numbers(function_of(e, a->syscall), function_of(e, b->syscall));
	if (!order && is_library(e, a->named))
		order = compare_numbers(function_of(e, a->caller), function_of(e, b->caller));
	return order;
}

static int compare_for_merge(const void *left, const void *right, void *user)
{
	const struct explained_line *a = left, *b = right;
	int order = compare_subjects(user, a, b);

	/* The largest one gives the path. */
	if (!order && magnitude(a->difference) != magnitude(b->difference))
		return magnitude(a->difference) > magnitude(b->difference) ? -1 : 1;
	return order ? order : compare_numbers(a->node, b->node);
}

static int compare_lines(const void *left, const void *right, void *user)
{
	const struct explained_line *a = left, *b = right;
	const struct explanation *e = user;
	bool larger = e->difference < 0 ? a->difference < b->difference : a->difference > b->difference;

	return a->difference != b->difference ? (larger ? -1 : 1) : compare_numbers(a->node, b->node);
}

static void add_line(struct explained_line *to, const struct explained_line *line)
{
	if (to->kind != line->kind)
		to->kind = class_of(to);
	add_to(&to->difference, line->difference);
	add_to(&to->wait, line->wait);
	to->places += line->places;
	for (unsigned side = 0; side < CALL_TREE_SIDES; side++) {
		to->value[side] += line->value[side];
		to->calls[side] += line->calls[side];
	}
}

/* Sums up lines that say the same of one function. */
static void merge_lines(struct explanation *e)
{
	size_t n = 0;

	if (e->n)
		qsort_r(e->lines, e->n, sizeof(*e->lines), compare_for_merge, e);
	for (size_t i = 0; i < e->n; i++) {
		if (n && compare_subjects(e, &e->lines[n - 1], &e->lines[i]) == 0)
			add_line(&e->lines[n - 1], &e->lines[i]);
		else
			e->lines[n++] = e->lines[i];
	}
	e->n = n;
	if (e->n)
		qsort_r(e->lines, e->n, sizeof(*e->lines), compare_lines, e);
}

/* Sums up what is too small, or beyond the limit, as the last line. */
static int sum_up_rest(struct explanation *e, size_t limit)
{
	struct explained_line rest = { .kind = EXPLAINED_OTHER,
				       .node = CALL_TREE_NONE,
				       .named = CALL_TREE_NONE,
				       .caller = CALL_TREE_NONE,
				       .deepest = CALL_TREE_NONE,
				       .syscall = CALL_TREE_NONE };
	size_t n = 0;

	for (size_t i = 0; i < e->n; i++) {
		const struct explained_line *line = &e->lines[i];
		bool small = (double)magnitude(line->difference) * 100 < (double)magnitude(e->difference) * LEAST_LINE;

		if (line->difference && !small && (!limit || n < limit))
			e->lines[n++] = *line;
		else
			add_line(&rest, line);
	}
	e->n = n;
	return push_line(e, &rest);
}

/* Marks library code, and sums up the differences in the program's own functions. */
static int find_own(struct explanation *e)
{
	const struct store *s = e->tree->list->store;
	const struct store_function *root = explanation_function(e, CALL_TREE_ROOT);

	e->is_library = calloc(store_functions(s) + 1, 1);
	e->own_diff = calloc(e->tree->n, sizeof(*e->own_diff));
	if (!e->is_library || !e->own_diff)
		return -ENOMEM;
	for (size_t i = 0; i < store_functions(s); i++)
		e->is_library[i] = library_code_has(store_function(s, i), root);
	/* A node follows its parent. */
	for (uint32_t i = (uint32_t)e->tree->n; i-- > CALL_TREE_ROOT + 1;) {
		if (!is_library(e, i))
			e->own_diff[i] = total_diff(e, i);
		add_to(&e->own_diff[node_of(e, i)->parent], e->own_diff[i]);
	}
	return 0;
}

static int add_preempted(struct explanation *e)
{
	const uint64_t *preempted = e->tree->preempted;
	struct explained_line line = { .kind = EXPLAINED_PREEMPTED,
				       .node = CALL_TREE_ROOT,
				       .named = CALL_TREE_ROOT,
				       .caller = CALL_TREE_NONE,
				       .deepest = CALL_TREE_ROOT,
				       .syscall = CALL_TREE_NONE,
				       .value = { preempted[0], preempted[1] },
				       .places = 1 };

	line.difference = diff(preempted[CALL_TREE_SLOW], preempted[CALL_TREE_TYPICAL]);
	return push_line(e, &line);
}

int explanation_make(struct explanation *e, const struct call_tree *tree, size_t limit)
{
	int rc;

	*e = (struct explanation){ .tree = tree };
	rc = find_own(e);
	if (rc == 0)
		rc = explain_node(e, CALL_TREE_ROOT);
	if (rc == 0)
		rc = add_preempted(e);
	if (rc < 0)
		return rc;
	e->difference = total_diff(e, CALL_TREE_ROOT);
	add_to(&e->difference, diff(tree->preempted[CALL_TREE_SLOW], tree->preempted[CALL_TREE_TYPICAL]));
	merge_lines(e);
	return sum_up_rest(e, limit);
}

/* Returns true if a node is another one, or beneath that. */
static bool is_beneath(const struct explanation *e, uint32_t node, uint32_t above)
{
	while (node != above && node != CALL_TREE_NONE)
		node = node_of(e, node)->parent;
	return node == above;
}

int explanation_find_waker(struct explanation *e)
{
	const struct call_tree_wait *longest = &e->tree->longest_wait;
	struct wait_interval wait = { longest->from, longest->to, longest->thread, 0 };
	const struct explained_line *line = NULL;
	uint32_t at = longest->node;
	int rc;

	for (size_t i = 0; i < e->n && !line; i++)
		if (e->lines[i].syscall != CALL_TREE_NONE && is_beneath(e, longest->node, e->lines[i].node))
			line = &e->lines[i];
	if (!longest->to || !line)
		return 0;
	/* Where the kernel is traced, the thread waits in its functions. */
	while (at != CALL_TREE_NONE && explanation_function(e, at)->kind != REGION_SYSCALL)
		at = node_of(e, at)->parent;
	if (at == CALL_TREE_NONE)
		return 0;
	wait.syscall = node_of(e, at)->function;
	rc = waker_find(e->tree->list->store, e->is_library, &wait, &e->waker);
	if (rc == 0)
		e->woken = line;
	return rc == -ENOENT ? 0 : rc;
}

void explanation_done(struct explanation *e)
{
	free(e->lines);
	free(e->is_library);
	free(e->own_diff);
	*e = (struct explanation){ 0 };
}

uint32_t explanation_waited_in(const struct explanation *e, const struct explained_line *line)
{
	uint32_t at = line->syscall;

	if (at == CALL_TREE_NONE)
		return at;
	/* The root may be the system call itself. */
	while (at != CALL_TREE_ROOT && is_library(e, node_of(e, at)->parent))
		at = node_of(e, at)->parent;
	if (at == line->named ||
	    strcmp(explanation_function(e, at)->name, explanation_function(e, line->syscall)->name) == 0)
		return CALL_TREE_NONE;
	return at;
}

const char *explanation_kind_str(enum explained_kind kind)
{
	static const char *const names[] = { "only",   "missing", "more", "fewer",     "self",
					     "longer", "wait",    "cut",  "preempted", "other" };

	return kind < ELEMENTS(names) ? names[kind] : "unknown";
}
