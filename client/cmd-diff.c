/* SPDX-License-Identifier: MIT */
/* csight diff. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/function-name.h"
#include "client/named-store.h"
#include "client/text-table.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

enum { OPTION_LIMIT, OPTION_FUNCTION };
enum { LIMIT = 40 };

static const struct verb_option options[] = {
	[OPTION_LIMIT] = { "limit", 'n', "N", "print the N functions that changed most (default 40; 0: all)" },
	[OPTION_FUNCTION] = { "function", 'f', "NAME", "only functions whose name matches the pattern NAME" },
	{ 0 },
};

/* Sum over the functions of one name and file, which may be loaded at several addresses. */
struct diff_side {
	uint64_t calls, total_ns, self_ns, longest_ns, whole, median_ns;
};

struct diff_pair {
	const char *name, *image;
	struct diff_side side[2];
};

struct diff {
	const char *function;
	int64_t limit;
	struct named_store input[2];
	struct diff_pair *list;
	size_t n;
};

static const char *image_file_name(const char *image)
{
	const char *last = strrchr(image, '/');

	return last ? last + 1 : image;
}

static int compare_pairs_by_name(const void *left, const void *right)
{
	const struct diff_pair *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : strcmp(a->image, b->image);
}

static uint64_t pair_change(const struct diff_pair *p)
{
	uint64_t a = p->side[0].self_ns, b = p->side[1].self_ns;

	return a > b ? a - b : b - a;
}

static int compare_pairs_by_change(const void *left, const void *right)
{
	uint64_t a = pair_change(left), b = pair_change(right);

	return a == b ? compare_pairs_by_name(left, right) : a < b ? 1 : -1;
}

static void side_add(struct diff_side *to, const struct diff_side *from)
{
	/* Medians cannot be added; that of the address with the most calls stands for all. */
	if (from->whole > to->whole)
		to->median_ns = from->median_ns;
	to->calls += from->calls;
	to->total_ns += from->total_ns;
	to->self_ns += from->self_ns;
	to->whole += from->whole;
	to->longest_ns = MAX(to->longest_ns, from->longest_ns);
}

static void diff_collect(struct diff *d, unsigned which)
{
	const struct store *s = d->input[which].store;

	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);
		struct diff_pair *p = &d->list[d->n];

		if (!f->calls || (d->function && !function_name_matches(f->name, d->function)))
			continue;
		*p = (struct diff_pair){ .name = f->name, .image = image_file_name(f->image) };
		p->side[which] =
		    (struct diff_side){ f->calls, f->total_ns, f->self_ns, f->longest_ns, f->whole, f->median_ns };
		d->n++;
	}
}

/* Joins the functions of both stores by name and file, and sorts them by change. */
static int diff_compare(struct diff *d)
{
	const struct store *stores[] = { d->input[0].store, d->input[1].store };
	size_t n = 0;

	d->list = calloc(store_functions(d->input[0].store) + store_functions(d->input[1].store) + 1, sizeof(*d->list));
	if (!d->list) {
		client_error("out of memory");
		return STATUS_FAILED;
	}
	diff_collect(d, 0);
	diff_collect(d, 1);
	qsort(d->list, d->n, sizeof(*d->list), compare_pairs_by_name);
	for (size_t i = 0; i < d->n; i++) {
		if (n && compare_pairs_by_name(&d->list[n - 1], &d->list[i]) == 0) {
			side_add(&d->list[n - 1].side[0], &d->list[i].side[0]);
			side_add(&d->list[n - 1].side[1], &d->list[i].side[1]);
		} else {
			d->list[n++] = d->list[i];
		}
	}
	d->n = n;
	qsort(d->list, d->n, sizeof(*d->list), compare_pairs_by_change);
	if (d->n || !d->function)
		return STATUS_OK;
	function_name_suggest(d->function, stores, 2);
	return STATUS_NOT_FOUND;
}

static const char *pair_verdict(const struct diff_pair *p)
{
	if (!p->side[0].calls)
		return "new";
	if (!p->side[1].calls)
		return "gone";
	return p->side[1].self_ns > p->side[0].self_ns   ? "slower"
	       : p->side[1].self_ns < p->side[0].self_ns ? "faster"
							 : "same";
}

static void add_time_cell(struct text_table *t, bool there, uint64_t ns)
{
	text_table_add(t, STYLE_PLAIN, there ? format_duration(ns) : "-");
}

static void add_pair_row(struct text_table *t, const struct diff_pair *p)
{
	const struct diff_side *a = &p->side[0], *b = &p->side[1];
	char text[64];

	text_table_add(
	    t, strcmp(pair_verdict(p), "slower") == 0 || strcmp(pair_verdict(p), "new") == 0 ? STYLE_BAD : STYLE_PLAIN,
	    pair_verdict(p));
	snprintf(text, sizeof(text), "%c%s", b->self_ns < a->self_ns ? '-' : '+', format_duration(pair_change(p)));
	text_table_add(t, STYLE_PLAIN, text);
	add_time_cell(t, a->calls, a->self_ns);
	add_time_cell(t, b->calls, b->self_ns);
	add_time_cell(t, a->whole, a->median_ns);
	add_time_cell(t, b->whole, b->median_ns);
	text_table_add(t, STYLE_PLAIN, format_count(a->calls));
	text_table_add(t, STYLE_PLAIN, format_count(b->calls));
	text_table_add(t, STYLE_PLAIN, p->name);
	text_table_add(t, STYLE_PLAIN, p->image);
}

static json_object *side_json(const struct diff_side *s)
{
	json_object *o = json_object_new_object();

	json_add_u64(o, "calls", s->calls);
	json_add_u64(o, "total", s->total_ns);
	json_add_u64(o, "self", s->self_ns);
	json_add_u64(o, "max", s->longest_ns);
	if (s->whole)
		json_add_u64(o, "median", s->median_ns);
	return o;
}

static void diff_print_json(const struct diff *d, size_t n)
{
	_cleanup_json_ json_object *all = json_object_new_object();
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		const struct diff_pair *p = &d->list[i];
		json_object *o = json_object_new_object();

		json_add_bytes(o, "name", p->name);
		json_add_bytes(o, "image", p->image);
		json_add_str(o, "what", pair_verdict(p));
		json_object_object_add(o, "a", side_json(&p->side[0]));
		json_object_object_add(o, "b", side_json(&p->side[1]));
		json_object_array_add(list, o);
	}
	json_object_object_add(all, "functions", list);
	printf("%s\n", json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
}

static void diff_print(struct client *c, const struct diff *d)
{
	static const char *const head[] = { "WHAT",      "SELF>",    "SELF A>",  "SELF B>",  "MEDIAN A>",
					    "MEDIAN B>", "CALLS A>", "CALLS B>", "FUNCTION", "IMAGE" };
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	size_t n = d->limit ? MIN(d->n, (size_t)d->limit) : d->n;

	if (c->json) {
		diff_print_json(d, n);
		return;
	}
	t = text_table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_pair_row(t, &d->list[i]);
	text_table_print(t, stdout);
	if (n < d->n)
		printf("%s more with smaller changes; --limit=0 shows all\n", format_plural(d->n - n, "function"));
}

static int diff_parse(struct client *c, struct diff *d)
{
	const char *value;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		if (o == OPTION_FUNCTION)
			d->function = value;
		else if (parse_i64(value, 0, INT32_MAX, &d->limit) < 0)
			return client_usage(c, "--limit: '%s' is not a number", esc(value));
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 2)
		return client_usage(c, "two snapshots are required, by ID or file");
	return -1;
}

static void diff_done(struct diff *d)
{
	free(d->list);
	named_store_close(&d->input[0]);
	named_store_close(&d->input[1]);
}

static int diff_run(struct client *c)
{
	_cleanup_(diff_done) struct diff d = { .limit = LIMIT, .input = { NAMED_STORE_NONE, NAMED_STORE_NONE } };
	int rc = diff_parse(c, &d);

	if (rc >= 0)
		return rc;
	rc = named_store_open(c, c->argv[0], &d.input[0]);
	if (rc == 0)
		rc = named_store_open(c, c->argv[1], &d.input[1]);
	if (rc == 0)
		rc = diff_compare(&d);
	if (rc == 0)
		diff_print(c, &d);
	return rc;
}

const struct verb cmd_diff = {
	.name = "diff",
	.arguments = NAMED_STORE_ARGUMENT " " NAMED_STORE_ARGUMENT,
	.summary = "compare two snapshots: functions that are slower, faster, new or gone",
	.flags = VERB_SOCKET | VERB_JSON,
	.options = options,
	.run = diff_run,
};
