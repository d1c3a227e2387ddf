/* SPDX-License-Identifier: MIT */
/* Compiler clones, read as the function that they are copies or parts of. */
#include <string.h>

#include "lib/store/cut-calls.h"
#include "lib/store/histogram.h"
#include "lib/store/reader.h"

#define NOT_MERGED UINT32_MAX

/* Suffixes have a number, as in NAME.isra.0; that of "cold" is optional. */
static const char *const kinds[] = { "isra", "constprop", "part", "lto_priv", "llvm", "cold" };
static const char clone_begin[] = " [clone ";

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns the size of name without its last suffix; size if it has none. */
static size_t cut_suffix(const char *name, size_t size)
{
	size_t end = size;

	while (end && is_digit(name[end - 1]))
		end--;
	if (end < size && (!end || name[--end] != '.'))
		return size;
	for (size_t i = 0; i < ELEMENTS(kinds); i++) {
		size_t n = strlen(kinds[i]);

		if (end > n && name[end - n - 1] == '.' && memcmp(name + end - n, kinds[i], n) == 0 &&
		    (end < size || strcmp(kinds[i], "cold") == 0) && (end == n + 1 || name[end - n - 2] != ' '))
			return end - n - 1;
	}
	return size;
}

/* Returns the length of NAME in "NAME [clone .isra.0]", the form of demangled C++ names; size for others. */
static size_t cut_clone(const char *name, size_t size)
{
	size_t begin = size, inner, n;

	if (!size || name[size - 1] != ']')
		return size;
	while (begin && memcmp(name + begin - 1, clone_begin, MIN(size - begin + 1, sizeof(clone_begin) - 1)) != 0)
		begin--;
	if (!begin || size - begin < sizeof(clone_begin))
		return size;
	inner = begin - 1 + sizeof(clone_begin) - 1;
	for (n = size - 1 - inner; n; n = cut_suffix(name + inner, n))
		if (cut_suffix(name + inner, n) == n)
			return size;
	return begin - 1;
}

size_t store_base_name(const char *name)
{
	size_t size = strlen(name), before;

	do {
		before = size;
		size = cut_clone(name, cut_suffix(name, size));
	} while (size && size != before);
	return size ? size : strlen(name);
}

struct clone {
	const struct store_function *function;
	uint32_t index;
	size_t base; /* size of the name without suffixes */
};

static int compare_texts(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int order = memcmp(a, b, MIN(a_size, b_size));

	return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Returns 0 if both can be clones of one function. */
static int compare_origins(const struct clone *a, const struct clone *b)
{
	int order = compare_texts(a->function->name, a->base, b->function->name, b->base);

	if (!order)
		order = strcmp(a->function->image, b->function->image);
	if (!order)
		order = strcmp(a->function->build_id, b->function->build_id);
	if (!order)
		order = strcmp(a->function->file, b->function->file);
	return order ? order : (a->function->line > b->function->line) - (a->function->line < b->function->line);
}

static int compare_clones(const void *left, const void *right)
{
	const struct clone *a = left, *b = right;
	int order = compare_origins(a, b);

	return order ? order : strcmp(a->function->name, b->function->name);
}

static bool has_run(const struct store_function *f)
{
	return f->calls || f->self_instructions || f->self_ns;
}

/*
 * Merges functions of one origin, unless two have the same full name: those are of different source files, and which
 * clone belongs to which of them is unknown.
 */
static void merge_group(struct store *s, const struct clone *group, size_t n)
{
	size_t first = 0;

	for (size_t i = 1; i < n; i++)
		if (strcmp(group[i].function->name, group[i - 1].function->name) == 0)
			return;
	/* One that ran stands for all. */
	while (first + 1 < n && !has_run(group[first].function))
		first++;
	for (size_t i = 0; i < n; i++) {
		const char *suffix = group[i].function->name + group[i].base;

		s->merged[group[i].index] =
		    (struct merged_function){ group[first].index, strstr(suffix, ".part") || strstr(suffix, ".cold") };
	}
}

static int merge_all(struct store *s)
{
	_cleanup_free_ struct clone *list = calloc(s->n_functions + 1, sizeof(*list));
	size_t n = 0, clones = 0;

	s->merged = calloc(s->n_functions + 1, sizeof(*s->merged));
	if (!list || !s->merged)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n_functions; i++) {
		const struct store_function *f = &s->functions[i];

		s->merged[i].function = i;
		if (f->kind != REGION_FUNCTION)
			continue;
		list[n] = (struct clone){ f, i, store_base_name(f->name) };
		clones += f->name[list[n++].base] != 0;
	}
	if (!clones)
		return 0;
	qsort(list, n, sizeof(*list), compare_clones);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && compare_origins(&list[i], &list[end]) == 0;)
			end++;
		merge_group(s, list + i, end - i);
	}
	/* Names are parts of s->strings, with a NUL each. */
	for (size_t i = 0; i < n; i++)
		s->strings[list[i].function->name - s->strings + MIN(list[i].base, strlen(list[i].function->name))] = 0;
	return 0;
}

/* Totals of one function over all its clones. */
struct clone_total {
	struct store_function *function;
	struct histogram times;
	uint32_t active; /* open frames of the thread */
};

struct clone_totals {
	struct clone_total *list;
	size_t n;
	uint32_t *numbers; /* by function: index into list, or NOT_MERGED */
};

static void clone_totals_done(struct clone_totals *t)
{
	for (size_t i = 0; i < t->n; i++)
		histogram_done(&t->list[i].times);
	free(t->list);
	free(t->numbers);
}

/* Lists the functions that ran as more than one clone, with the sums of all their clones. */
static int find_totals(struct store *s, struct clone_totals *t)
{
	t->list = calloc(s->n_functions + 1, sizeof(*t->list));
	t->numbers = malloc((s->n_functions + 1) * sizeof(*t->numbers));
	if (!t->list || !t->numbers)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_functions; i++)
		t->numbers[i] = NOT_MERGED;
	for (size_t i = 0; i < s->n_functions; i++) {
		struct store_function *f = &s->functions[i], *to = &s->functions[s->merged[i].function];
		uint32_t *number = &t->numbers[s->merged[i].function];

		if (f == to || !has_run(f))
			continue;
		if (*number == NOT_MERGED) {
			*number = (uint32_t)t->n;
			t->list[t->n++].function = to;
			to->calls = to->whole = to->longest_ns = 0;
			to->total_ns = to->wait_ns = to->total_instructions = 0;
		}
		to->self_ns += f->self_ns;
		to->self_instructions += f->self_instructions;
		f->calls = f->whole = 0;
	}
	return 0;
}

/* waited: how long the thread had not run when the frame was left. */
static int add_leave(struct clone_total *c, const struct store_event *e, uint64_t waited, size_t thread)
{
	uint64_t ns = e->time - e->frame.enter;
	struct store_function *f = c->function;
	int rc = 0;

	/* In a forged file, a frame can leave without an enter, or as another kind than it was entered. */
	if (!c->active || (store_is_whole(e) && f->whole >= f->calls))
		return -EBADMSG;
	if (ns >= f->longest_ns) {
		f->longest_ns = ns;
		f->longest_enter = e->frame.enter;
		f->longest_thread = (uint32_t)thread;
	}
	if (store_is_whole(e)) {
		f->shortest_ns = f->whole++ ? MIN(f->shortest_ns, ns) : ns;
		rc = histogram_add(&c->times, ns);
	}
	if (--c->active)
		return rc;
	f->total_ns += ns;
	f->wait_ns += waited - e->frame.waited;
	f->total_instructions += e->instructions - e->frame.instructions;
	return rc;
}

static int total_thread(struct store *s, struct clone_totals *t, size_t thread)
{
	_cleanup_(cut_calls_done) struct cut_calls cut = { 0 };
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	size_t depth = 0; /* without parts of functions */
	int rc = store_iter_new(s, thread, &it), next;

	while (rc == 0 && (next = store_iter_next(it, &e)) != 0) {
		struct clone_total *c = NULL;

		if (next < 0)
			return next;
		if ((e.type != STORE_ENTER && e.type != STORE_LEAVE) || e.frame.piece)
			continue;
		if (t->numbers[e.frame.function] != NOT_MERGED)
			c = &t->list[t->numbers[e.frame.function]];
		if (e.type == STORE_ENTER) {
			bool is_call = cut_calls_enter(&cut, e.frame.function, e.kind, e.again);

			depth++;
			if (c) {
				c->active++;
				c->function->calls += is_call;
			}
			continue;
		}
		if (!depth--)
			return -EBADMSG;
		cut_calls_leave(&cut);
		if (e.kind == LEAVE_GAP)
			rc = cut_calls_add(&cut, depth, e.frame.function);
		if (rc == 0 && c)
			rc = add_leave(c, &e, store_iter_waited(it, e.time), thread);
	}
	return rc;
}

static void set_quantiles(struct store_function *f, const struct histogram *times)
{
	if (!f->whole)
		return;
	f->median_ns = histogram_nth(times, f->whole - f->whole / 2);
	f->p99_ns = histogram_nth(times, f->whole - f->whole / 100);
}

int store_merge_clones(struct store *s)
{
	_cleanup_(clone_totals_done) struct clone_totals t = { 0 };
	int rc = merge_all(s);

	if (rc == 0)
		rc = find_totals(s, &t);
	for (size_t i = 0; rc == 0 && t.n && i < s->n_threads; i++)
		rc = total_thread(s, &t, i);
	for (size_t i = 0; rc == 0 && i < t.n; i++)
		set_quantiles(t.list[i].function, &t.list[i].times);
	return rc;
}
