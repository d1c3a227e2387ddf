/* SPDX-License-Identifier: MIT */
/* csight report. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/function-name.h"
#include "client/named-store.h"
#include "client/text-table.h"
#include "client/unnamed.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

enum { OPTION_SORT, OPTION_COLUMNS, OPTION_LIMIT, OPTION_FUNCTION, OPTION_SUFFIXES, OPTION_PHYSICAL };
enum { LIMIT = 40 };

static const struct verb_option options[] = {
	[OPTION_SORT] = { "sort", 0, "COLUMN",
			  "calls, instructions, total-instructions, total, run, wait, self, min, median, p99, max or "
			  "name" },
	[OPTION_COLUMNS] = { "columns", 0, "LIST", "print these columns, such as calls,self,longest; or all" },
	[OPTION_LIMIT] = { "limit", 'n', "N", "print only the first N functions (default 40; 0: all)" },
	[OPTION_FUNCTION] = { "function", 'f', "NAME", "only functions whose name matches the pattern NAME" },
	[OPTION_SUFFIXES] = { "suffixes", 0, NULL, FUNCTION_NAME_SUFFIXES_HELP },
	[OPTION_PHYSICAL] = { "physical", 0, NULL, NAMED_STORE_PHYSICAL_HELP },
	{ 0 },
};

struct report {
	const struct column *sort;
	bool work_first; /* functions that stand for time without execution come last */
	const char *columns;
	const char *function;
	int64_t limit;
	struct named_store input;
	const struct store_function **list;
	uint64_t *bounds; /* by function: largest error of a duration */
	size_t n;
};

enum column_kind {
	COLUMN_CALLS,
	COLUMN_COUNT,
	COLUMN_TIME,
	COLUMN_TOTAL, /* a time; printed by default where the wait is unknown */
	COLUMN_RUN,   /* the total without the wait */
	COLUMN_WAIT,  /* as COLUMN_RUN "-" in stores that do not have it */
	COLUMN_WHOLE, /* a time of whole calls; "-" without any */
	COLUMN_LONGEST,
	COLUMN_NAME,
	COLUMN_IMAGE,
};

/* The columns that a table can have; all but those of text can be sorted by, largest value first, and so can the name.
 */
static const struct column {
	const char *name, *title;
	enum column_kind kind;
	bool by_default;
	size_t at; /* of the value in struct store_function */
} columns[] = {
	{ "name", "FUNCTION~", COLUMN_NAME, true, 0 },
	{ "calls", "CALLS>", COLUMN_CALLS, true, offsetof(struct store_function, calls) },
	{ "instructions", "INSTRUCTIONS>4", COLUMN_COUNT, true, offsetof(struct store_function, self_instructions) },
	{ "total-instructions", "WITH CALLEES>", COLUMN_COUNT, false,
	  offsetof(struct store_function, total_instructions) },
	{ "total", "TOTAL>", COLUMN_TOTAL, false, offsetof(struct store_function, total_ns) },
	{ "run", "RUN>5", COLUMN_RUN, true, 0 },
	{ "wait", "WAIT>6", COLUMN_WAIT, true, offsetof(struct store_function, wait_ns) },
	{ "self", "SELF>", COLUMN_TIME, true, offsetof(struct store_function, self_ns) },
	{ "min", "MIN>", COLUMN_WHOLE, false, offsetof(struct store_function, shortest_ns) },
	{ "median", "MEDIAN>7", COLUMN_WHOLE, true, offsetof(struct store_function, median_ns) },
	{ "p99", "P99>8", COLUMN_WHOLE, true, offsetof(struct store_function, p99_ns) },
	{ "max", "MAX>", COLUMN_TIME, true, offsetof(struct store_function, longest_ns) },
	{ "longest", "LONGEST", COLUMN_LONGEST, false, 0 },
	{ "image", "IMAGE~9", COLUMN_IMAGE, true, 0 },
};

static uint64_t value_of(const struct column *column, const struct store_function *f)
{
	uint64_t value;

	if (column->kind == COLUMN_RUN)
		return f->total_ns - MIN(f->wait_ns, f->total_ns);
	memcpy(&value, (const char *)f + column->at, sizeof(value));
	return value;
}

static int compare_functions(const void *left, const void *right, void *user)
{
	const struct store_function *a = *(const struct store_function *const *)left,
				    *b = *(const struct store_function *const *)right;
	const struct report *r = user;
	const struct column *column = r->sort;
	uint64_t x = value_of(column, a), y = value_of(column, b);

	if (r->work_first && store_is_wait(a->kind) != store_is_wait(b->kind))
		return store_is_wait(a->kind) ? 1 : -1;
	if (column->kind == COLUMN_NAME || x == y)
		return strcmp(a->name, b->name);
	return x < y ? 1 : -1;
}

/* Finds the column of a name, which has size bytes; NULL: there is none. */
static const struct column *find_column(const char *name, size_t size)
{
	for (size_t i = 0; i < ELEMENTS(columns); i++)
		if (strlen(columns[i].name) == size && memcmp(columns[i].name, name, size) == 0)
			return &columns[i];
	return NULL;
}

/* True if the column needs the time in which threads did not run. */
static bool needs_waits(const struct column *column)
{
	return column->kind == COLUMN_RUN || column->kind == COLUMN_WAIT;
}

/* True if the table has the column. */
static bool is_shown(const struct report *r, const struct column *column)
{
	const char *list = r->columns;

	if (!list)
		return named_store_has_waits(&r->input)
			   ? column->by_default
			   : column->kind == COLUMN_TOTAL || (column->by_default && !needs_waits(column));
	if (column->kind == COLUMN_NAME || strcmp(list, "all") == 0)
		return true;
	for (size_t size; *list; list += size + (list[size] == ',')) {
		size = strcspn(list, ",");
		if (find_column(list, size) == column)
			return true;
	}
	return false;
}

static int report_sort(struct report *r)
{
	const struct store *s = r->input.store;
	const char *sort = named_store_is_emulated(s) ? "instructions" : "self";
	int rc = 0;

	r->list = calloc(store_functions(s) + 1, sizeof(*r->list));
	r->bounds = calloc(store_functions(s) + 1, sizeof(*r->bounds));
	if (!r->list || !r->bounds)
		rc = -ENOMEM;
	if (rc == 0)
		rc = store_function_bounds(s, r->bounds);
	if (rc < 0) {
		client_error("cannot read the calls: %s", client_read_problem(-rc));
		return STATUS_FAILED;
	}
	for (size_t i = 0; i < store_functions(s); i++)
		if (store_function(s, i)->calls &&
		    (!r->function || store_name_matches(store_function(s, i)->name, r->function)))
			r->list[r->n++] = store_function(s, i);
	r->work_first = !r->sort;
	if (!r->sort)
		r->sort = find_column(sort, strlen(sort));
	qsort_r(r->list, r->n, sizeof(*r->list), compare_functions, r);
	if (r->n || !r->function)
		return STATUS_OK;
	function_name_suggest(r->function, &s, 1);
	return STATUS_NOT_FOUND;
}

static void add_cell(struct text_table *t, const struct report *r, const struct column *column,
		     const struct store_function *f)
{
	uint64_t bound = r->bounds[f - store_function(r->input.store, 0)], value = value_of(column, f);
	const char *image = strrchr(f->image, '/'), *text = NULL, *suffix = NULL;
	char longest[80];

	switch (column->kind) {
	case COLUMN_CALLS:
		text = format_calls(value, f->calls_uncertain);
		break;
	case COLUMN_COUNT:
		text = format_count(value);
		break;
	case COLUMN_WHOLE:
		text = f->whole ? format_duration_within(value, bound) : "-";
		break;
	case COLUMN_RUN:
	case COLUMN_WAIT:
		text = named_store_has_waits(&r->input) ? format_duration_within(value, bound) : "-";
		break;
	case COLUMN_TIME:
	case COLUMN_TOTAL:
		text = format_duration_within(value, bound);
		break;
	case COLUMN_LONGEST:
		snprintf(longest, sizeof(longest), "+%s in thread %u",
			 format_duration(named_store_since_start(r->input.store, f->longest_enter)),
			 store_thread(r->input.store, f->longest_thread)->tid);
		text = longest;
		break;
	case COLUMN_NAME:
		text = named_store_name(&r->input, f);
		suffix = format_function_kind(f->kind);
		break;
	case COLUMN_IMAGE:
		text = image ? image + 1 : f->image;
		break;
	}
	text_table_add_with(t, STYLE_PLAIN, text, suffix);
}

static json_object *threads_json(const struct store *s)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);
		json_object *o = json_object_new_object(), *gaps = json_object_new_object();

		json_add_u64(o, "thread", t->tid);
		json_add_bytes(o, "name", t->name);
		if (t->events) {
			json_add_u64(o, "first", t->first);
			json_add_u64(o, "last", t->last);
		}
		json_add_u64(o, "slices", t->slices);
		json_add_u64(o, "instructions", t->instructions);
		json_add_u64(o, "unexplained", t->unexplained);
		json_add_u64(o, "bound", t->bound);
		json_add_double(o, "quality", store_quality(s, i) / 100.0);
		for (unsigned k = 0; k < STORE_GAP_KINDS; k++) {
			json_object *kind;

			if (!t->gaps_of[k].n)
				continue;
			kind = json_object_new_object();
			json_add_u64(kind, "count", t->gaps_of[k].n);
			json_add_u64(kind, "time", t->gaps_of[k].ns);
			json_add(gaps, calls_gap_str(k), kind);
		}
		json_add(o, "gaps", gaps);
		json_array_add(list, o);
	}
	return list;
}

static void print_quality(const struct store *s)
{
	unsigned quality = store_quality(s, SIZE_MAX);

	printf("%s, %u.%02u %% of %s time is known", format_plural(store_threads(s), "thread"), quality / 100,
	       quality % 100, store_threads(s) == 1 ? "its" : "their");
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
		if (f->calls_uncertain)
			json_add_bool(o, "calls_uncertain", true);
		json_add_u64(o, "total", f->total_ns);
		if (named_store_has_waits(&r->input))
			json_add_u64(o, "wait", f->wait_ns);
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
		if (r->bounds[f - store_function(r->input.store, 0)])
			json_add_u64(o, "bound", r->bounds[f - store_function(r->input.store, 0)]);
		json_add_u64(o, "max_thread", store_thread(r->input.store, f->longest_thread)->tid);
		json_array_add(list, o);
	}
	json_add(all, "functions", list);
	json_add(all, "unnamed", unnamed_json(r->input.store));
	named_store_add_times(r->input.store, all);
	json_add_double(all, "quality", store_quality(r->input.store, SIZE_MAX) / 100.0);
	json_add(all, "threads", threads_json(r->input.store));
	client_print_json(all);
}

static void report_print(struct client *c, const struct report *r)
{
	const char *head[ELEMENTS(columns)];
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	size_t n = r->limit ? MIN(r->n, (size_t)r->limit) : r->n, width = 0;

	if (c->json) {
		report_print_json(r, n);
		return;
	}
	for (size_t i = 0; i < ELEMENTS(columns); i++)
		if (is_shown(r, &columns[i]))
			head[width++] = columns[i].title;
	t = text_table_new(head, width);
	for (size_t i = 0, at = 0; i < ELEMENTS(columns); i++) {
		if (!is_shown(r, &columns[i]))
			continue;
		if (r->columns || &columns[i] == r->sort)
			text_table_keep(t, at);
		at++;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < ELEMENTS(columns); k++)
			if (is_shown(r, &columns[k]))
				add_cell(t, r, &columns[k], r->list[i]);
	client_page(c);
	text_table_print(t, stdout);
	if (n < r->n)
		printf("%s more; --limit=0 shows all\n", format_plural(r->n - n, "function"));
	text_table_print_omitted(t, stdout, "; --columns chooses");
	print_quality(r->input.store);
	named_store_print_times(stdout, r->input.store);
	unnamed_print(stdout, r->input.store);
}

static bool can_sort(const struct column *column)
{
	return column->kind != COLUMN_LONGEST && column->kind != COLUMN_IMAGE;
}

static int report_unknown_column(struct client *c, const char *name, bool sort)
{
	const char *known[ELEMENTS(columns)];
	size_t n = 0;

	for (size_t i = 0; i < ELEMENTS(columns); i++)
		if (!sort || can_sort(&columns[i]))
			known[n++] = columns[i].name;
	return client_unknown(c, "column", name, known, n);
}

static int report_set_columns(struct client *c, struct report *r, const char *list)
{
	r->columns = list;
	for (size_t size; *list && strcmp(r->columns, "all") != 0; list += size + (list[size] == ',')) {
		size = strcspn(list, ",");
		if (!find_column(list, size))
			return report_unknown_column(c, list, false);
	}
	return 0;
}

static int report_set_sort(struct client *c, struct report *r, const char *name)
{
	r->sort = find_column(name, strlen(name));
	if (r->sort && can_sort(r->sort))
		return 0;
	return report_unknown_column(c, name, true);
}

static int report_parse_option(struct client *c, struct report *r, int option, const char *value)
{
	switch (option) {
	case OPTION_SORT:
		return report_set_sort(c, r, value);
	case OPTION_COLUMNS:
		return report_set_columns(c, r, value);
	case OPTION_FUNCTION:
		r->function = value;
		return 0;
	case OPTION_SUFFIXES:
		r->input.suffixes = true;
		return 0;
	case OPTION_PHYSICAL:
		r->input.physical = true;
		return 0;
	default:
		return parse_i64(value, 0, INT32_MAX, &r->limit) == 0
			   ? 0
			   : client_usage(c, "--limit: '%s' is not a number", esc(value));
	}
}

static int report_parse(struct client *c, struct report *r)
{
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		rc = report_parse_option(c, r, o, value);
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? NAMED_STORE_TOO_MANY : NAMED_STORE_MISSING);
	return -1;
}

static void report_done(struct report *r)
{
	free(r->list);
	free(r->bounds);
	named_store_close(&r->input);
}

static int report_run(struct client *c)
{
	_cleanup_(report_done) struct report r = { .limit = LIMIT, .input = NAMED_STORE_NONE };
	int rc = report_parse(c, &r);

	if (rc >= 0)
		return rc;
	rc = named_store_open(c, c->argv[0], &r.input);
	if (rc == 0)
		rc = report_sort(&r);
	if (rc == 0)
		report_print(c, &r);
	return rc;
}

const struct verb cmd_report = {
	.name = "report",
	.arguments = NAMED_STORE_ARGUMENT,
	.summary = "print for each function how often it was called and how long it took",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE | VERB_NAMES | VERB_PAGER,
	.options = options,
	.run = report_run,
};
