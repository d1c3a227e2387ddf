/* SPDX-License-Identifier: MIT */
/* csight grep. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/function-name.h"
#include "client/named-store.h"
#include "client/selection.h"
#include "client/text-table.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"
#include "lib/store/finder.h"

enum {
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_LAST,
	OPTION_THREAD,
	OPTION_LONGER,
	OPTION_SORT,
	OPTION_LIMIT,
	OPTION_SUFFIXES,
	OPTION_PHYSICAL
};
enum { LIMIT = 1000 };

static const struct verb_option options[] = {
	[OPTION_SINCE] = { "since", 0, "TIME", SELECTION_SINCE_HELP },
	[OPTION_UNTIL] = { "until", 0, "TIME", SELECTION_UNTIL_HELP },
	[OPTION_LAST] = { "last", 0, "TIME", SELECTION_LAST_HELP },
	[OPTION_THREAD] = { "thread", 0, "THREAD", SELECTION_THREAD_HELP },
	[OPTION_LONGER] = { "longer", 0, "TIME", "only calls of at least this duration, such as 5ms" },
	[OPTION_SORT] = { "sort", 0, "KEY",
			  "time, duration or instructions (default: thread by thread, as calls end)" },
	[OPTION_LIMIT] = { "limit", 'n', "N", "print the first N calls (default 1000; 0: no limit)" },
	[OPTION_SUFFIXES] = { "suffixes", 0, NULL, FUNCTION_NAME_SUFFIXES_HELP },
	[OPTION_PHYSICAL] = { "physical", 0, NULL, NAMED_STORE_PHYSICAL_HELP },
	{ 0 },
};

enum sort_key { SORT_TIME, SORT_DURATION, SORT_INSTRUCTIONS };
static const char *const sort_keys[] = { "time", "duration", "instructions" };

enum { COLUMN_TIME = 1, COLUMN_DURATION, COLUMN_INSTRUCTIONS };
/* Rows of the table that are printed at a time. */
enum { ROWS = 1000 };

struct grep {
	struct client *client;
	const char *function;
	struct selection selection;
	const char *longer;
	int64_t limit;
	uint64_t least_ns;
	enum sort_key sort;
	struct named_store input;
	struct export_options options;
	uint8_t *wanted; /* for each function: whether it matches */
	uint64_t found;  /* calls printed or listed */
	bool more;       /* than the limit */
	bool sorted;     /* calls are listed first */
	struct store_found_call *calls;
	size_t n_calls, cap_calls;
	struct text_table *table;
};

static const char *function_name(const struct grep *g, uint32_t function)
{
	return store_function(g->input.store, function)->name;
}

static void print_call_json(const struct grep *g, const struct store_found_call *call)
{
	const struct store_function *f = store_function(g->input.store, call->frame.function);
	const struct store_site *site = store_site(g->input.store, call->frame.site);
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_bytes(o, "name", f->name);
	json_add_u64(o, "thread", store_thread(g->input.store, call->thread)->tid);
	json_add_u64(o, "time", call->frame.enter);
	json_add_u64(o, "duration", call->ns);
	if (call->bound)
		json_add_u64(o, "bound", call->bound);
	json_add_u64(o, "instructions", call->instructions);
	json_add_u64(o, "depth", call->depth);
	json_add_bool(o, "whole", call->whole);
	if (call->whole && store_is_slow(f, call->ns, call->bound))
		json_add_bool(o, "slow", true);
	json_add_str(o, "entered", calls_kind_str(call->frame.kind));
	json_add_str(o, "left", calls_leave_str(call->left));
	if (call->caller != STORE_NO_CALLER)
		json_add_bytes(o, "caller", function_name(g, call->caller));
	if (site)
		json_add_bool(o, "inlined", true);
	if (site && site->file[0]) {
		json_add_bytes(o, "call_file", site->file);
		json_add_u64(o, "call_line", site->line);
	}
	client_print_json(o);
}

/* Formats how the call was made, if it was by no plain call. */
static const char *format_note(const struct grep *g, const struct store_found_call *call, char *ret, size_t size)
{
	const struct store_site *site = store_site(g->input.store, call->frame.site);
	const char *base = site ? strrchr(site->file, '/') : NULL;

	*ret = 0;
	if (site && site->file[0])
		snprintf(ret, size, "inlined at %s:%u", base ? base + 1 : site->file, site->line);
	else if (site)
		snprintf(ret, size, "inlined");
	else if (calls_kind_is_tail(call->frame.kind))
		snprintf(ret, size, call->frame.kind == CALL_FOLDED ? "tail call, folded" : "tail call");
	return ret;
}

static void add_row(struct grep *g, const struct store_found_call *call)
{
	const struct store_function *f = store_function(g->input.store, call->frame.function);
	enum format_style style = store_is_slow(f, call->ns, call->bound) ? STYLE_SLOW : STYLE_PLAIN;
	char text[48], note[300];

	text_table_add_with(g->table, STYLE_PLAIN, named_store_name(&g->input, f), format_function_kind(f->kind));
	snprintf(text, sizeof(text), "%.6f ms",
		 (double)named_store_since_start(g->input.store, call->frame.enter) / 1e6);
	text_table_add(g->table, STYLE_PLAIN, text);
	text_table_add_with(g->table, style, format_duration_within(call->ns, call->bound), call->whole ? " " : "+");
	text_table_add(g->table, STYLE_PLAIN, format_count(call->instructions));
	snprintf(text, sizeof(text), "%u", store_thread(g->input.store, call->thread)->tid);
	text_table_add(g->table, STYLE_PLAIN, text);
	text_table_add(g->table, STYLE_PLAIN,
		       call->caller == STORE_NO_CALLER
			   ? NULL
			   : named_store_name(&g->input, store_function(g->input.store, call->caller)));
	text_table_add(g->table, STYLE_PLAIN, format_note(g, call, note, sizeof(note)));
}

static void print_call(struct grep *g, const struct store_found_call *call)
{
	if (g->client->json) {
		print_call_json(g, call);
		return;
	}
	add_row(g, call);
	if (text_table_rows(g->table) >= ROWS)
		text_table_print(g->table, stdout);
}

static int compare_calls(const void *left, const void *right, void *user)
{
	const struct store_found_call *a = left, *b = right;
	const enum sort_key *key = user;

	if (*key == SORT_DURATION && a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	if (*key == SORT_INSTRUCTIONS && a->instructions != b->instructions)
		return a->instructions < b->instructions ? 1 : -1;
	if (a->frame.enter != b->frame.enter)
		return a->frame.enter < b->frame.enter ? -1 : 1;
	return (a->depth > b->depth) - (a->depth < b->depth);
}

/* Sorts the calls listed so far and drops those beyond the limit. */
static void sort_calls(struct grep *g)
{
	if (g->n_calls)
		qsort_r(g->calls, g->n_calls, sizeof(*g->calls), compare_calls, &g->sort);
	if (g->limit && g->n_calls > (size_t)g->limit) {
		g->n_calls = (size_t)g->limit;
		g->more = true;
	}
}

/*
 * Prints a call, or adds it to the list. Returns 1 to continue, 0 if the limit is reached or standard output is closed,
 * or negative errno.
 */
static int add_call(struct grep *g, const struct store_found_call *call)
{
	if (g->sorted) {
		if (g->limit && g->n_calls >= 2 * (size_t)g->limit)
			sort_calls(g);
		if (array_reserve(g->calls, g->n_calls, &g->cap_calls) < 0)
			return -ENOMEM;
		g->calls[g->n_calls++] = *call;
		return 1;
	}
	g->more = g->limit && g->found >= (uint64_t)g->limit;
	if (g->more)
		return 0;
	g->found++;
	print_call(g, call);
	/* The reader of standard output may have closed it. */
	return ferror(stdout) ? 0 : 1;
}

/* Finds the matching calls. Returns as add_call(). */
static int grep_calls(struct grep *g)
{
	const struct store_finder_options wanted = { .wanted = g->wanted,
						     .tid = g->options.tid,
						     .since = g->options.since,
						     .until = g->options.until,
						     .least_ns = g->least_ns };
	_cleanup_(store_finder_freep) struct store_finder *finder = NULL;
	struct store_found_call call;
	int rc = store_finder_new(g->input.store, &wanted, &finder);

	while (rc == 0 && (rc = store_finder_next(finder, &call)) == 1) {
		rc = add_call(g, &call);
		if (rc <= 0)
			return rc;
		rc = 0;
	}
	return rc;
}

/* Makes the table. Its columns have room for all values, since it is printed in parts. */
static int grep_begin_table(struct grep *g)
{
	static const char *const head[] = { "FUNCTION~", "TIME>",   "DURATION>", "INSTRUCTIONS>8",
					    "THREAD>9",  "CALLER~", "HOW~7?" };
	const struct store *s = g->input.store;
	uint64_t last = 0;
	char text[48];

	g->table = text_table_new(head, ELEMENTS(head));
	if (!g->table)
		return -ENOMEM;
	for (size_t i = 0; i < store_threads(s); i++)
		last = MAX(last, store_thread(s, i)->last);
	text_table_reserve(
	    g->table, COLUMN_TIME,
	    (size_t)snprintf(text, sizeof(text), "%.6f ms", (double)named_store_since_start(s, last) / 1e6));
	text_table_reserve(g->table, COLUMN_DURATION, strlen("999.9 ms+"));
	if (g->sort == SORT_INSTRUCTIONS)
		text_table_keep(g->table, COLUMN_INSTRUCTIONS);
	client_page(g->client);
	return 0;
}

static int grep_all(struct grep *g)
{
	const struct store *s = g->input.store;
	int rc;

	if (!g->client->json && grep_begin_table(g) < 0) {
		client_error("out of memory");
		return STATUS_FAILED;
	}
	rc = grep_calls(g);
	if (rc < 0) {
		client_error("cannot read the calls: %s", client_read_problem(-rc));
		return STATUS_FAILED;
	}
	sort_calls(g);
	for (size_t i = 0; i < g->n_calls; i++)
		print_call(g, &g->calls[i]);
	text_table_print(g->table, stdout);
	if (g->more && !g->client->json)
		printf("more than %s; --limit=0 shows all\n", format_plural(g->found + g->n_calls, "call"));
	if (!g->client->json)
		named_store_print_times(stdout, s);
	return STATUS_OK;
}

static int grep_select(struct client *c, struct grep *g)
{
	const struct store *s = g->input.store;
	bool some = false;
	int rc = selection_apply(c, &g->selection, s, &g->options);

	if (rc != 0)
		return rc;
	g->wanted = calloc(store_functions(s) + 1, 1);
	if (!g->wanted) {
		client_error("out of memory");
		return STATUS_FAILED;
	}
	for (size_t i = 0; i < store_functions(s); i++) {
		g->wanted[i] = store_name_matches(store_function(s, i)->name, g->function);
		some = some || g->wanted[i];
	}
	if (some)
		return STATUS_OK;
	function_name_suggest(g->function, &s, 1);
	return STATUS_NOT_FOUND;
}

static int grep_set_sort(struct grep *g, const char *key)
{
	for (size_t i = 0; i < ELEMENTS(sort_keys); i++) {
		if (strcmp(sort_keys[i], key) != 0)
			continue;
		g->sort = (enum sort_key)i;
		g->sorted = true;
		return 0;
	}
	return client_unknown(g->client, "key", key, sort_keys, ELEMENTS(sort_keys));
}

static int grep_parse_option(struct grep *g, int option, const char *value)
{
	const char **const to[] = { [OPTION_SINCE] = &g->selection.since,
				    [OPTION_UNTIL] = &g->selection.until,
				    [OPTION_LAST] = &g->selection.last,
				    [OPTION_THREAD] = &g->selection.thread,
				    [OPTION_LONGER] = &g->longer };

	switch (option) {
	case OPTION_SORT:
		return grep_set_sort(g, value);
	case OPTION_LIMIT:
		return parse_i64(value, 0, INT32_MAX, &g->limit) == 0
			   ? 0
			   : client_usage(g->client, "--limit: '%s' is not a number", esc(value));
	case OPTION_SUFFIXES:
		g->input.suffixes = true;
		return 0;
	case OPTION_PHYSICAL:
		g->input.physical = true;
		return 0;
	default:
		*to[option] = value;
		return 0;
	}
}

static int grep_parse(struct client *c, struct grep *g)
{
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		rc = grep_parse_option(g, o, value);
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (g->longer && selection_parse_duration(g->longer, &g->least_ns) < 0)
		return client_usage(c, "--longer: '%s' is not a duration such as 1.5s, 20ms or 100us", esc(g->longer));
	if (c->argc != 2)
		return client_usage(c, c->argc < 2 ? "grep requires a function and a snapshot"
						   : "grep accepts only one function and one snapshot");
	return -1;
}

static void grep_done(struct grep *g)
{
	free(g->wanted);
	free(g->calls);
	text_table_free(g->table);
	named_store_close(&g->input);
}

static int grep_run(struct client *c)
{
	_cleanup_(grep_done) struct grep g = {
		.client = c, .limit = LIMIT, .input = NAMED_STORE_NONE, .options = EXPORT_DEFAULTS
	};
	int rc = grep_parse(c, &g);

	if (rc >= 0)
		return rc;
	g.function = c->argv[0];
	rc = named_store_open(c, c->argv[1], &g.input);
	if (rc == 0)
		rc = grep_select(c, &g);
	return rc == 0 ? grep_all(&g) : rc;
}

const struct verb cmd_grep = {
	.name = "grep",
	.arguments = "FUNCTION " NAMED_STORE_ARGUMENT,
	.summary = "list the calls of a function: time, duration, caller",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE | VERB_NAMES | VERB_PAGER,
	.options = options,
	.run = grep_run,
};
