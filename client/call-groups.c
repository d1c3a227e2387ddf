/* SPDX-License-Identifier: MIT */
#include "client/call-groups.h"

#include <stdlib.h>
#include <string.h>

#include "client/library-code.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* The state of reading a call, with its shape. */
struct group_reading {
	struct call_groups *to;
	uint8_t *libraries; /* by function: whether it is library code without source */
	uint32_t *frames;   /* functions of the open frames */
	size_t cap_frames;
	uint32_t *index; /* by function: of its entry plus one */
	struct group_function *functions;
	size_t n, cap;
};

/* Returns the function whose calls are grouped. */
static const struct store_function *own_function(const struct call_list *l)
{
	size_t i = 0;

	while (!l->roots[i])
		i++;
	return store_function(l->store, i);
}

static int on_event(void *user, const struct store_event *e, uint32_t depth)
{
	struct group_reading *r = user;
	struct group_function *f;

	if (e->type != STORE_ENTER)
		return 0;
	while (depth >= r->cap_frames)
		if (array_reserve(r->frames, r->cap_frames, &r->cap_frames) < 0)
			return -ENOMEM;
	r->frames[depth] = e->frame.function;
	if (!depth || calls_kind_is_resumed(e->kind) || e->frame.piece)
		return 0;
	/* Calls within a library do not count: they vary between calls that do the same. */
	if (r->libraries[e->frame.function] && r->libraries[r->frames[depth - 1]])
		return 0;
	if (!r->index[e->frame.function]) {
		if (array_reserve(r->functions, r->n, &r->cap) < 0)
			return -ENOMEM;
		r->functions[r->n++] = (struct group_function){ .function = e->frame.function, .level = depth };
		r->index[e->frame.function] = (uint32_t)r->n;
	}
	f = &r->functions[r->index[e->frame.function] - 1];
	f->calls++;
	f->level = MIN(f->level, depth);
	return 0;
}

/* Numbers of calls are of one class up to a factor of four. */
static unsigned class_of(uint64_t calls)
{
	return calls ? 1 + (63 - (unsigned)__builtin_clzll(calls)) / 2 : 0;
}

static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 31) * 0x7fb5d329728ea185;
	v = (v ^ v >> 27) * 0x81dadef4bc2dd44d;
	return v ^ v >> 33;
}

static int compare_functions(const void *left, const void *right)
{
	const struct group_function *a = left, *b = right;

	return (a->function > b->function) - (a->function < b->function);
}

/* Adds a group of the shape that was read. */
static int add_group(struct group_reading *r, const struct store_call *call)
{
	struct call_groups *g = r->to;
	struct call_group group = { .first = *call, .n_functions = r->n };

	if (array_reserve(g->groups, g->n, &g->cap) < 0)
		return -ENOMEM;
	group.functions = malloc((r->n + 1) * sizeof(*group.functions));
	if (!group.functions)
		return -ENOMEM;
	if (r->n) {
		memcpy(group.functions, r->functions, r->n * sizeof(*group.functions));
		qsort(group.functions, r->n, sizeof(*group.functions), compare_functions);
	}
	g->groups[g->n++] = group;
	return 0;
}

/* Finds or makes the group of the shape that was read. */
static int find_group(struct group_reading *r, const struct store_call *call, struct call_group **ret)
{
	struct call_groups *g = r->to;
	uint64_t key[2] = { r->n, r->n };
	uint32_t *number;
	int rc;

	/* Sums, so that the order of the functions does not matter. */
	for (size_t i = 0; i < r->n; i++) {
		uint64_t part = (uint64_t)r->functions[i].function << 8 | class_of(r->functions[i].calls);

		key[0] += mix(part);
		key[1] += mix(part ^ 0x9e3779b97f4a7c15);
	}
	number = hash_get(&g->by_shape, key[0], key[1]);
	if (number || g->n == CALL_GROUPS_MAX) {
		*ret = &g->groups[number ? *number : g->n - 1];
		(*ret)->mixed = (*ret)->mixed || !number;
		return 0;
	}
	rc = hash_find(&g->by_shape, key[0], key[1], &number);
	if (rc < 0)
		return rc;
	*number = (uint32_t)g->n;
	rc = add_group(r, call);
	*ret = rc == 0 ? &g->groups[g->n - 1] : NULL;
	return rc;
}

static int on_end(void *user, const struct store_call *call)
{
	struct group_reading *r = user;
	const struct call_list *list = r->to->list;
	uint64_t value = call_list_value(list, call);
	struct call_group *group = NULL;
	int rc = find_group(r, call, &group);

	for (size_t i = 0; i < r->n; i++)
		r->index[r->functions[i].function] = 0;
	r->n = 0;
	if (rc < 0)
		return rc;
	if (!group->calls || value > call_list_value(list, &group->slowest))
		group->slowest = *call;
	group->calls++;
	group->value += value;
	r->to->calls++;
	r->to->value += value;
	return histogram_add(&group->values, value);
}

static int compare_groups(const void *left, const void *right)
{
	const struct call_group *a = left, *b = right;

	if (a->value != b->value)
		return a->value > b->value ? -1 : 1;
	return (a->first.enter > b->first.enter) - (a->first.enter < b->first.enter);
}

int call_groups_read(struct call_groups *g, const struct call_list *list)
{
	size_t next, n = store_functions(list->store);
	_cleanup_free_ uint32_t *index = calloc(n + 1, sizeof(*index));
	_cleanup_free_ uint8_t *libraries = calloc(n + 1, 1);
	struct group_reading r = { .to = g, .index = index, .libraries = libraries };
	const struct store_calls_sink sink = { on_event, on_end, &r };
	int rc = index && libraries ? 0 : -ENOMEM;

	*g = (struct call_groups){ .list = list };
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct store_function *f = store_function(list->store, i);

		libraries[i] = !f->file[0] && library_code_has(f, own_function(list));
	}
	for (size_t i = 0; rc == 0 && i < list->n; i = next) {
		for (next = i; next < list->n && list->calls[next].thread == list->calls[i].thread;)
			next++;
		rc = store_calls_read(list->store, list->roots, &list->calls[i], next - i, &sink);
	}
	free(r.functions);
	free(r.frames);
	if (g->n)
		qsort(g->groups, g->n, sizeof(*g->groups), compare_groups);
	return rc;
}

void call_groups_done(struct call_groups *g)
{
	for (size_t i = 0; i < g->n; i++) {
		histogram_done(&g->groups[i].values);
		free(g->groups[i].functions);
	}
	free(g->groups);
	hash_done(&g->by_shape);
	*g = (struct call_groups){ 0 };
}

const struct call_group *call_groups_usual(const struct call_groups *g)
{
	const struct call_group *usual = &g->groups[0];

	for (size_t i = 1; i < g->n; i++)
		if (g->groups[i].calls > usual->calls)
			usual = &g->groups[i];
	return usual;
}

/* A difference between groups, with the properties that differences are sorted by. */
struct ranked_difference {
	struct group_difference difference;
	bool library;
	uint32_t level;
};

static int compare_ranked(const void *left, const void *right)
{
	const struct ranked_difference *a = left, *b = right;

	if (a->library != b->library)
		return a->library ? 1 : -1;
	if (a->level != b->level)
		return a->level < b->level ? -1 : 1;
	return (a->difference.function > b->difference.function) - (a->difference.function < b->difference.function);
}

/* Lists the functions that both groups differ in. */
static size_t list_differences(const struct call_groups *g, const struct call_group *a, const struct call_group *b,
			       struct ranked_difference *ret)
{
	const struct store *s = g->list->store;
	size_t i = 0, k = 0, n = 0;

	while (i < a->n_functions || k < b->n_functions) {
		const struct group_function *x = i < a->n_functions ? &a->functions[i] : NULL,
					    *y = k < b->n_functions ? &b->functions[k] : NULL;
		bool has_x = x && (!y || x->function <= y->function), has_y = y && (!x || y->function <= x->function);
		const struct group_function *f = has_x ? x : y;

		i += has_x;
		k += has_y;
		if (class_of(has_x ? x->calls : 0) == class_of(has_y ? y->calls : 0))
			continue;
		ret[n++] = (struct ranked_difference){
			.difference = { f->function, has_x ? x->calls : 0, has_y ? y->calls : 0 },
			.library = library_code_has(store_function(s, f->function), own_function(g->list)),
			.level = f->level,
		};
	}
	return n;
}

size_t call_groups_compare(const struct call_groups *g, const struct call_group *group, struct group_difference *ret,
			   size_t n)
{
	const struct call_group *usual = call_groups_usual(g);
	_cleanup_free_ struct ranked_difference *all =
	    calloc(group->n_functions + usual->n_functions + 1, sizeof(*all));
	size_t found = all ? list_differences(g, group, usual, all) : 0;

	if (found)
		qsort(all, found, sizeof(*all), compare_ranked);
	for (size_t i = 0; i < MIN(n, found); i++)
		ret[i] = all[i].difference;
	return found;
}
