/* SPDX-License-Identifier: MIT */
/* csight report. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/named-store.h"
#include "client/text-table.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

enum { NAME_MAX_SHOWN = 1000 };

enum { OPTION_SORT, OPTION_LIMIT, OPTION_FUNCTION };
enum { LIMIT = 40 };

static const struct verb_option options[] = {
	[OPTION_SORT] = { "sort", 0, "COLUMN", "self (default), total, calls, median, p99, max or name" },
	[OPTION_LIMIT] = { "limit", 'n', "N", "print only the first N functions (default 40; 0: all)" },
	[OPTION_FUNCTION] = { "function", 'f', "NAME", "only functions whose name matches the pattern NAME" },
	{ 0 },
};

static const char by_name[] = "name";

struct report {
	const struct column *sort;
	const char *function;
	int64_t limit;
	struct named_store input;
	const struct store_function **list;
	size_t n;
};

/* The columns to sort by, largest value first; by_name has no value. */
static const struct column {
	const char *name;
	size_t at;
} columns[] = {
	{ "self", offsetof(struct store_function, self_ns) },
	{ "total", offsetof(struct store_function, total_ns) },
	{ "calls", offsetof(struct store_function, calls) },
	{ "median", offsetof(struct store_function, median_ns) },
	{ "p99", offsetof(struct store_function, p99_ns) },
	{ "max", offsetof(struct store_function, longest_ns) },
	{ by_name, 0 },
};

static int compare_functions(const void *left, const void *right, void *user)
{
	const struct store_function *a = *(const struct store_function *const *)left,
				    *b = *(const struct store_function *const *)right;
	const struct column *column = user;
	uint64_t x, y;

	memcpy(&x, (const char *)a + column->at, sizeof(x));
	memcpy(&y, (const char *)b + column->at, sizeof(y));
	if (column->name == by_name || x == y)
		return strcmp(a->name, b->name);
	return x < y ? 1 : -1;
}

static const struct column *find_column(const char *name)
{
	for (size_t i = 0; i < ELEMENTS(columns); i++)
		if (strcmp(columns[i].name, name) == 0)
			return &columns[i];
	return NULL;
}

static int report_sort(struct client *c, struct report *r)
{
	const struct store *s = r->input.store;

	r->list = calloc(store_functions(s) + 1, sizeof(*r->list));
	if (!r->list) {
		client_error("out of memory");
		return STATUS_FAILED;
	}
	for (size_t i = 0; i < store_functions(s); i++)
		if (store_function(s, i)->calls &&
		    (!r->function || named_store_matches_name(store_function(s, i)->name, r->function)))
			r->list[r->n++] = store_function(s, i);
	qsort_r(r->list, r->n, sizeof(*r->list), compare_functions, (void *)r->sort);
	if (r->n || !r->function)
		return STATUS_OK;
	client_error("no function '%s' ran in this trace", esc(r->function));
	return STATUS_NOT_FOUND;
}

static void add_cell(struct text_table *t, const char *text)
{
	text_table_add(t, STYLE_PLAIN, text);
}

static void add_function_row(struct text_table *t, const struct store *s, const struct store_function *f)
{
	const char *image = strrchr(f->image, '/');
	char where[96], name[NAME_MAX_SHOWN + 16];

	add_cell(t, format_count(f->calls));
	add_cell(t, format_duration(f->total_ns));
	add_cell(t, format_duration(f->self_ns));
	add_cell(t, f->whole ? format_duration(f->shortest_ns) : "-");
	add_cell(t, f->whole ? format_duration(f->median_ns) : "-");
	add_cell(t, f->whole ? format_duration(f->p99_ns) : "-");
	add_cell(t, format_duration(f->longest_ns));
	snprintf(where, sizeof(where), "+%s in %u", format_duration(named_store_since_start(s, f->longest_enter)),
		 store_thread(s, f->longest_thread)->tid);
	add_cell(t, where);
	snprintf(name, sizeof(name), "%.*s (inlined)", NAME_MAX_SHOWN, f->name);
	add_cell(t, f->kind == REGION_INLINED ? name : f->name);
	add_cell(t, image ? image + 1 : f->image);
}

static json_object *threads_json(const struct store *s)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);
		json_object *o = json_object_new_object(), *gaps = json_object_new_object();

		json_add_u64(o, "thread", t->tid);
		json_add_bytes(o, "name", t->name);
		json_add_u64(o, "first", t->first);
		json_add_u64(o, "last", t->last);
		json_add_u64(o, "slices", t->slices);
		json_add_u64(o, "instructions", t->instructions);
		json_add_u64(o, "unexplained", t->unexplained);
		json_add_u64(o, "bound", t->bound);
		json_object_object_add(o, "quality", json_object_new_double(store_quality(s, i) / 100.0));
		for (unsigned k = 0; k < STORE_GAP_KINDS; k++) {
			json_object *kind;

			if (!t->gaps_of[k].n)
				continue;
			kind = json_object_new_object();
			json_add_u64(kind, "count", t->gaps_of[k].n);
			json_add_u64(kind, "time", t->gaps_of[k].ns);
			json_object_object_add(gaps, calls_gap_str(k), kind);
		}
		json_object_object_add(o, "gaps", gaps);
		json_object_array_add(list, o);
	}
	return list;
}

static void print_quality(const struct store *s)
{
	unsigned quality = store_quality(s, SIZE_MAX);

	printf("%s, %u.%02u %% of their time is known", format_plural(store_threads(s), "thread"), quality / 100,
	       quality % 100);
	for (unsigned k = 0; k < STORE_GAP_KINDS; k++) {
		struct store_gaps all = { 0 };

		for (size_t i = 0; i < store_threads(s); i++) {
			all.n += store_thread(s, i)->gaps_of[k].n;
			all.ns += store_thread(s, i)->gaps_of[k].ns;
		}
		if (all.n)
			printf("; %s: %s, %s", format_plural(all.n, "gap"), calls_gap_str(k), format_duration(all.ns));
	}
	printf("\n");
}

static void report_print_json(const struct report *r, size_t n)
{
	_cleanup_json_ json_object *all = json_object_new_object();
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		const struct store_function *f = r->list[i];
		json_object *o = json_object_new_object();

		json_add_bytes(o, "name", f->name);
		json_add_bytes(o, "image", f->image);
		if (f->kind == REGION_INLINED)
			json_add_bool(o, "inlined", true);
		else
			json_add_hex(o, "address", f->address);
		if (f->file[0]) {
			json_add_bytes(o, "file", f->file);
			json_add_u64(o, "line", f->line);
		}
		json_add_u64(o, "calls", f->calls);
		json_add_u64(o, "total", f->total_ns);
		json_add_u64(o, "self", f->self_ns);
		json_add_u64(o, "total_instructions", f->total_instructions);
		json_add_u64(o, "self_instructions", f->self_instructions);
		json_add_u64(o, "whole", f->whole);
		if (f->whole) {
			json_add_u64(o, "min", f->shortest_ns);
			json_add_u64(o, "median", f->median_ns);
			json_add_u64(o, "p99", f->p99_ns);
		}
		json_add_u64(o, "max", f->longest_ns);
		json_add_u64(o, "max_at", f->longest_enter);
		json_add_u64(o, "max_thread", store_thread(r->input.store, f->longest_thread)->tid);
		json_object_array_add(list, o);
	}
	json_object_object_add(all, "functions", list);
	named_store_add_times(r->input.store, all);
	json_object_object_add(all, "quality", json_object_new_double(store_quality(r->input.store, SIZE_MAX) / 100.0));
	json_object_object_add(all, "threads", threads_json(r->input.store));
	printf("%s\n", json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
}

static void report_print(struct client *c, const struct report *r)
{
	static const char *const head[] = { "CALLS>", "TOTAL>", "SELF>",   "MIN>",     "MEDIAN>",
					    "P99>",   "MAX>",   "LONGEST", "FUNCTION", "IMAGE" };
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	size_t n = r->limit ? MIN(r->n, (size_t)r->limit) : r->n;

	if (c->json) {
		report_print_json(r, n);
		return;
	}
	t = text_table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_function_row(t, r->input.store, r->list[i]);
	text_table_print(t, stdout);
	if (n < r->n)
		printf("%s more; --limit=0 shows all\n", format_plural(r->n - n, "function"));
	print_quality(r->input.store);
	named_store_print_times(stdout, r->input.store);
}

static int report_parse(struct client *c, struct report *r)
{
	const char *value;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		if (o == OPTION_SORT) {
			r->sort = find_column(value);
			if (!r->sort)
				return client_usage(c, "--sort: unknown column '%s'", esc(value));
			continue;
		}
		if (o == OPTION_FUNCTION)
			r->function = value;
		else if (parse_i64(value, 0, INT32_MAX, &r->limit) < 0)
			return client_usage(c, "--limit: '%s' is not a number", esc(value));
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? NAMED_STORE_TOO_MANY : NAMED_STORE_MISSING);
	return -1;
}

static void report_done(struct report *r)
{
	free(r->list);
	named_store_close(&r->input);
}

static int report_run(struct client *c)
{
	_cleanup_(report_done) struct report r = { .sort = &columns[0], .limit = LIMIT, .input = NAMED_STORE_NONE };
	int rc = report_parse(c, &r);

	if (rc >= 0)
		return rc;
	rc = named_store_open(c, c->argv[0], &r.input);
	if (rc == 0)
		rc = report_sort(c, &r);
	if (rc == 0)
		report_print(c, &r);
	return rc;
}

const struct verb cmd_report = {
	.name = "report",
	.arguments = NAMED_STORE_ARGUMENT,
	.summary = "print for each function how often it was called and how long it took",
	.flags = VERB_SOCKET | VERB_JSON,
	.options = options,
	.run = report_run,
};
