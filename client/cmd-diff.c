/* SPDX-License-Identifier: MIT */
/* csight diff. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/comparison.h"
#include "client/format.h"
#include "client/function-name.h"
#include "client/named-store.h"
#include "client/text-table.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

enum {
	OPTION_LIMIT,
	OPTION_FUNCTION,
	OPTION_SORT,
	OPTION_THRESHOLD,
	OPTION_FAIL_ABOVE,
	OPTION_SUFFIXES,
	OPTION_PHYSICAL,
};
enum { LIMIT = 40 };

static const struct verb_option options[] = {
	[OPTION_LIMIT] = { "limit", 'n', "N", "print the first N differences (default 40; 0: all)" },
	[OPTION_FUNCTION] = { "function", 'f', "NAME",
			      "functions whose name matches the pattern NAME, also those that do not differ" },
	[OPTION_SORT] = { "sort", 0, "KEY", "what a change costs in instructions or time, change or name" },
	[OPTION_THRESHOLD] = { "threshold", 0, "PERCENT", "ignore smaller changes (default 3%)" },
	[OPTION_FAIL_ABOVE] = { "fail-above", 0, "PERCENT", "exit with status 6 if a call costs so much more" },
	[OPTION_SUFFIXES] = { "suffixes", 0, NULL, FUNCTION_NAME_SUFFIXES_HELP },
	[OPTION_PHYSICAL] = { "physical", 0, NULL, NAMED_STORE_PHYSICAL_HELP },
	{ 0 },
};

static const char *const sort_keys[] = { "instructions", "time", "change", "name" };
enum { SORT_INSTRUCTIONS, SORT_TIME, SORT_CHANGE, SORT_NAME, SORT_DEFAULT };

struct diff {
	const char *function;
	int64_t limit; /* -1: none was given */
	unsigned sort;
	double fail_above; /* negative: never */
	struct named_store input[2];
	struct names *names; /* short names of both; NULL with --json */
	struct comparison comparison;
	const struct change **list; /* to print */
	size_t n, cap;
	size_t differences;
	bool failed;
};

static const struct behaviour_function *name_of(const struct diff *d, uint32_t pair)
{
	const struct compared_pair *p = &d->comparison.pairs[pair];

	return p->side[1] ? p->side[1] : p->side[0];
}

static int compare_changes(const void *left, const void *right, void *user)
{
	const struct change *a = *(const struct change *const *)left, *b = *(const struct change *const *)right;
	const struct diff *d = user;
	double x = 0, y = 0;
	int order;

	if (a->differs != b->differs)
		return a->differs ? -1 : 1;
	if (d->sort == SORT_INSTRUCTIONS || d->sort == SORT_TIME) {
		x = d->sort == SORT_TIME ? a->time : a->instructions;
		y = d->sort == SORT_TIME ? b->time : b->instructions;
	} else if (d->sort == SORT_CHANGE) {
		x = fabs(comparison_relative(a));
		y = fabs(comparison_relative(b));
	}
	if (x != y)
		return x < y ? 1 : -1;
	order = strcmp(name_of(d, a->pair)->name, name_of(d, b->pair)->name);
	return order ? order : (a->pair > b->pair) - (a->pair < b->pair);
}

static bool is_wanted(const struct diff *d, uint32_t pair)
{
	return !d->function || store_name_matches(name_of(d, pair)->name, d->function);
}

/* Counts a change of a wanted function, and lists it if it is a difference, or of the function that the user named. */
static int list_change(struct diff *d, const struct change *change)
{
	bool calls = change->kind == CHANGE_CALLS;

	if (!is_wanted(d, change->pair) && !(calls && is_wanted(d, change->caller)))
		return 0;
	d->differences += change->differs;
	if (change->differs && d->fail_above >= 0 && comparison_relative(change) > d->fail_above)
		d->failed = true;
	if (!change->differs && (!d->function || calls))
		return 0;
	if (array_reserve(d->list, d->n, &d->cap) < 0)
		return -ENOMEM;
	d->list[d->n++] = change;
	return 0;
}

/*
 * Returns the change that stands for a pair. Instructions are more exact than times: the change of time stands for both
 * only if it is an increase, and the larger one.
 */
static const struct change *change_of(const struct compared_pair *p)
{
	double instructions = comparison_relative(&p->instructions), time = comparison_relative(&p->time);

	if (p->time.differs && p->instructions.differs)
		return time > 0 && time > instructions ? &p->time : &p->instructions;
	return p->time.differs ? &p->time : &p->instructions;
}

static int list_changes(struct diff *d)
{
	const struct comparison *c = &d->comparison;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->n_pairs; i++)
		rc = list_change(d, change_of(&c->pairs[i]));
	for (size_t i = 0; rc == 0 && i < c->n_calls; i++)
		rc = list_change(d, &c->calls[i]);
	return rc;
}

/* Compares both stores, and sorts what is to be printed. Returns 0 or an exit status. */
static int diff_compare(struct diff *d)
{
	const struct store *stores[] = { d->input[0].store, d->input[1].store };
	bool emulated = named_store_is_emulated(stores[0]) && named_store_is_emulated(stores[1]), some = !d->function;
	int rc = comparison_make(&d->comparison, stores[0], stores[1]);

	if (rc == 0)
		rc = list_changes(d);
	if (rc < 0) {
		client_error("cannot read the calls: %s", client_read_problem(-rc));
		return STATUS_FAILED;
	}
	if (d->sort == SORT_DEFAULT)
		d->sort = emulated ? SORT_INSTRUCTIONS : SORT_TIME;
	if (d->n)
		qsort_r(d->list, d->n, sizeof(*d->list), compare_changes, d);
	for (size_t i = 0; !some && i < d->comparison.n_pairs; i++)
		some = is_wanted(d, (uint32_t)i);
	if (some)
		return STATUS_OK;
	function_name_suggest(d->function, stores, 2);
	return STATUS_NOT_FOUND;
}

static const char *format_percent(double value, char ret[32])
{
	snprintf(ret, 32, "%.*f %%", fabs(value) < 0.1 ? 1 : 0, 100 * value);
	return ret;
}

static void add_change_cell(struct text_table *t, const struct change *change)
{
	double relative = comparison_relative(change);
	char text[40], number[32];

	if (isinf(relative))
		strcpy(text, "new");
	else if (relative <= -1)
		strcpy(text, "gone");
	else
		snprintf(text, sizeof(text), "%s%s", relative > 0 ? "+" : "", format_percent(relative, number));
	text_table_add(t, change->differs && relative > 0 ? STYLE_BAD : STYLE_PLAIN, text);
}

/* Adds a cell with a figure per call. bound: the error bound of a time, else 0. */
static void add_figure_cell(struct text_table *t, const struct change *change, double value, uint64_t bound)
{
	char text[32];

	if (change->kind == CHANGE_TIME) {
		text_table_add(t, STYLE_PLAIN, format_duration_within((uint64_t)value, bound));
		return;
	}
	if (change->kind == CHANGE_INSTRUCTIONS && value >= 1000)
		snprintf(text, sizeof(text), "%s", format_count((uint64_t)(value + 0.5)));
	else
		snprintf(text, sizeof(text), "%.*f", value == floor(value) ? 0 : value < 10 ? 2 : 1, value);
	text_table_add(t, STYLE_PLAIN, text);
}

/* Returns the duration that this many of the whole calls, in percent, do not exceed. */
static uint64_t quantile(const struct histogram *h, uint64_t whole, unsigned percent)
{
	return histogram_nth(h, whole - whole * (100 - percent) / 100);
}

static void add_median_cell(struct text_table *t, const struct behaviour_function *f)
{
	text_table_add(t, STYLE_PLAIN,
		       f && f->whole ? format_duration_within(quantile(&f->times, f->whole, 50), comparison_bound(f))
				     : "-");
}

static void add_row(struct text_table *t, const struct diff *d, const struct change *change)
{
	static const char *const kinds[] = { "instructions", "time", "calls" };
	const struct compared_pair *p = &d->comparison.pairs[change->pair];
	const struct behaviour_function *f = name_of(d, change->pair);
	const char *name = names_short(d->names, f->name);
	_cleanup_free_ char *call = NULL;
	char noise[32];

	if (change->kind == CHANGE_CALLS &&
	    asprintf(&call, "%s < %s", name, names_short(d->names, name_of(d, change->caller)->name)) >= 0)
		name = call;
	text_table_add_with(t, STYLE_PLAIN, name, f->inlined && !call ? " (inlined)" : NULL);
	add_change_cell(t, change);
	text_table_add(t, STYLE_PLAIN, kinds[change->kind]);
	add_figure_cell(t, change, change->a, p->side[0] ? comparison_bound(p->side[0]) : 0);
	add_figure_cell(t, change, change->b, p->side[1] ? comparison_bound(p->side[1]) : 0);
	text_table_add(t, STYLE_PLAIN, change->a > 0 ? format_percent(change->noise / change->a, noise) : "-");
	add_median_cell(t, p->side[0]);
	add_median_cell(t, p->side[1]);
	text_table_add(t, STYLE_PLAIN, f->image);
}

static double calls_per_second(const struct behaviour *of, uint64_t calls)
{
	uint64_t ns = of->last - of->first;

	return ns ? (double)calls * 1e9 / (double)ns : 0;
}

static void add_double(json_object *o, const char *key, double value)
{
	json_add_double(o, key, value);
}

static json_object *side_json(const struct comparison *c, unsigned side, const struct compared_pair *p)
{
	const struct behaviour_function *f = p->side[side];
	json_object *o = json_object_new_object();

	json_add_u64(o, "calls", f ? f->calls : 0);
	if (!f)
		return o;
	add_double(o, "calls_per_second", calls_per_second(&c->sides[side], f->calls));
	json_add_u64(o, "whole", f->whole);
	json_add_u64(o, "total", f->total_ns);
	json_add_u64(o, "self", f->self_ns);
	json_add_u64(o, "self_instructions", f->self_instructions);
	json_add_u64(o, "max", f->longest_ns);
	if (!f->whole)
		return o;
	json_add_u64(o, "median", quantile(&f->times, f->whole, 50));
	json_add_u64(o, "p99", quantile(&f->times, f->whole, 99));
	json_add_u64(o, "median_instructions", quantile(&f->costs, f->whole, 50));
	json_add_u64(o, "p99_instructions", quantile(&f->costs, f->whole, 99));
	json_add_u64(o, "bound", comparison_bound(f));
	return o;
}

static json_object *change_json(const struct change *change)
{
	double relative = comparison_relative(change);
	json_object *o = json_object_new_object();

	add_double(o, "a", change->a);
	add_double(o, "b", change->b);
	/* The change from 0 is infinite, which JSON cannot express. */
	if (!isinf(relative))
		add_double(o, "change", relative);
	add_double(o, "noise", change->noise);
	add_double(o, "share_of_instructions", change->instructions);
	add_double(o, "share_of_time", change->time);
	json_add_bool(o, "differs", change->differs);
	return o;
}

static const char *pair_verdict(const struct compared_pair *p)
{
	const struct change *change = change_of(p);

	if (!p->side[0] || !p->side[1])
		return p->side[0] ? "gone" : "new";
	return !change->differs ? "same" : change->b > change->a ? "slower" : "faster";
}

static json_object *pair_json(const struct comparison *c, const struct compared_pair *p)
{
	const struct behaviour_function *f = p->side[1] ? p->side[1] : p->side[0];
	json_object *o = json_object_new_object();

	json_add_bytes(o, "name", f->name);
	json_add_bytes(o, "image", f->image);
	if (f->inlined)
		json_add_bool(o, "inlined", true);
	json_add_str(o, "what", pair_verdict(p));
	json_add(o, "a", side_json(c, 0, p));
	json_add(o, "b", side_json(c, 1, p));
	if (p->side[0] && p->side[1]) {
		json_add(o, "instructions_per_call", change_json(&p->instructions));
		json_add(o, "time_per_call", change_json(&p->time));
	}
	return o;
}

static json_object *trace_json(const struct behaviour *b)
{
	json_object *o = json_object_new_object();

	json_add_u64(o, "duration", b->last - b->first);
	json_add_u64(o, "instructions", b->instructions);
	return o;
}

/* Functions that differ come first, in the order of the table; then all others, by name. */
static json_object *functions_json(const struct diff *d)
{
	const struct comparison *c = &d->comparison;
	json_object *list = json_object_new_array();
	_cleanup_free_ bool *done = calloc(c->n_pairs + 1, sizeof(*done));
	size_t limit = d->limit > 0 ? (size_t)d->limit : SIZE_MAX;

	for (size_t i = 0; done && i < d->n; i++) {
		if (d->list[i]->kind == CHANGE_CALLS || json_array_size(list) >= limit)
			continue;
		json_array_add(list, pair_json(c, &c->pairs[d->list[i]->pair]));
		done[d->list[i]->pair] = true;
	}
	for (size_t i = 0; done && i < c->n_pairs && json_array_size(list) < limit; i++)
		if (!done[i] && is_wanted(d, (uint32_t)i))
			json_array_add(list, pair_json(c, &c->pairs[i]));
	return list;
}

static json_object *calls_json(const struct diff *d)
{
	const struct comparison *c = &d->comparison;
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < c->n_calls; i++) {
		json_object *o;

		if (!is_wanted(d, c->calls[i].pair) && !is_wanted(d, c->calls[i].caller))
			continue;
		o = change_json(&c->calls[i]);
		json_add_bytes(o, "name", name_of(d, c->calls[i].pair)->name);
		json_add_bytes(o, "caller", name_of(d, c->calls[i].caller)->name);
		json_array_add(list, o);
	}
	return list;
}

static void diff_print_json(const struct diff *d)
{
	_cleanup_json_ json_object *all = json_object_new_object();

	json_add_u64(all, "differences", d->differences);
	add_double(all, "threshold", d->comparison.threshold);
	json_add(all, "a", trace_json(&d->comparison.sides[0]));
	json_add(all, "b", trace_json(&d->comparison.sides[1]));
	json_add(all, "functions", functions_json(d));
	json_add(all, "calls", calls_json(d));
	client_print_json(all);
}

static void print_side(char name, const struct behaviour *b)
{
	printf("%c: %s instructions, %s\n", name, format_count(b->instructions), format_duration(b->last - b->first));
}

static void diff_print(struct client *c, const struct diff *d)
{
	static const char *const head[] = { "FUNCTION~", "CHANGE>",    "OF A CALL",  "A>",     "B>",
					    "NOISE>6",   "MEDIAN A>7", "MEDIAN B>7", "IMAGE~9" };
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	int64_t limit = d->limit < 0 ? LIMIT : d->limit;
	size_t n = limit ? MIN(d->n, (size_t)limit) : d->n;
	char threshold[32];

	if (c->json) {
		diff_print_json(d);
		return;
	}
	t = text_table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_row(t, d, d->list[i]);
	client_page(c);
	if (n)
		text_table_print(t, stdout);
	if (n < d->n)
		printf("%s more; --limit=0 shows all\n", format_plural(d->n - n, "difference"));
	text_table_print_omitted(t, stdout, "");
	if (!d->differences)
		printf("no difference\n");
	print_side('A', &d->comparison.sides[0]);
	print_side('B', &d->comparison.sides[1]);
	printf("compared: %s, threshold %s\n", format_plural(d->comparison.n_pairs, "function"),
	       format_percent(d->comparison.threshold, threshold));
}

/* Parses "3%" or "3"; returns the share. */
static int parse_percent(const char *text, double *ret)
{
	char *end;
	double value;

	if (strspn(text, "0123456789.") == 0)
		return -EINVAL;
	value = strtod(text, &end);
	if (*end == '%')
		end++;
	if (*end || !(value >= 0 && value < 1e6))
		return -EINVAL;
	*ret = value / 100;
	return 0;
}

static int diff_set_percent(struct client *c, int option, const char *value, double *ret)
{
	return parse_percent(value, ret) == 0
		   ? 0
		   : client_usage(c, "--%s: '%s' is not a percentage such as 10%%", options[option].name, esc(value));
}

static int diff_parse_option(struct client *c, struct diff *d, int option, const char *value)
{
	switch (option) {
	case OPTION_FUNCTION:
		d->function = value;
		return 0;
	case OPTION_SORT:
		for (d->sort = 0; d->sort < ELEMENTS(sort_keys); d->sort++)
			if (strcmp(sort_keys[d->sort], value) == 0)
				return 0;
		return client_unknown(c, "key", value, sort_keys, ELEMENTS(sort_keys));
	case OPTION_THRESHOLD:
		return diff_set_percent(c, option, value, &d->comparison.threshold);
	case OPTION_FAIL_ABOVE:
		return diff_set_percent(c, option, value, &d->fail_above);
	case OPTION_SUFFIXES:
		d->input[0].suffixes = d->input[1].suffixes = true;
		return 0;
	case OPTION_PHYSICAL:
		d->input[0].physical = d->input[1].physical = true;
		return 0;
	default:
		return parse_i64(value, 0, INT32_MAX, &d->limit) == 0
			   ? 0
			   : client_usage(c, "--limit: '%s' is not a number", esc(value));
	}
}

static int diff_parse(struct client *c, struct diff *d)
{
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		rc = diff_parse_option(c, d, o, value);
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 2)
		return client_usage(c, "diff requires two snapshots, by ID or file");
	return -1;
}

static void diff_done(struct diff *d)
{
	free(d->list);
	names_free(d->names);
	comparison_done(&d->comparison);
	named_store_close(&d->input[0]);
	named_store_close(&d->input[1]);
}

/* What a call is differs between versions of the store, so that their differences are not those of the programs. */
static int diff_check_versions(const struct client *c, const struct diff *d)
{
	const struct named_store *a = &d->input[0], *b = &d->input[1];

	if (a->version == b->version)
		return STATUS_OK;
	client_error("cannot compare %s, a store of version %u, with %s, one of version %u: they count calls "
		     "differently; decode the trace of the older one again",
		     esc(c->argv[0]), a->version, esc(c->argv[1]), b->version);
	return STATUS_FAILED;
}

static int diff_run(struct client *c)
{
	_cleanup_(diff_done) struct diff d = { .limit = -1,
					       .sort = SORT_DEFAULT,
					       .fail_above = -1,
					       .comparison.threshold = 0.03,
					       .input = { NAMED_STORE_NONE, NAMED_STORE_NONE } };
	int rc = diff_parse(c, &d);

	if (rc >= 0)
		return rc;
	rc = named_store_open(c, c->argv[0], &d.input[0]);
	if (rc == 0)
		rc = named_store_open(c, c->argv[1], &d.input[1]);
	if (rc == 0)
		rc = diff_check_versions(c, &d);
	if (rc == 0)
		rc = diff_compare(&d);
	if (rc != 0)
		return rc;
	if (!c->json)
		d.names = named_store_names(c, d.input[0].store, d.input[1].store);
	diff_print(c, &d);
	return d.failed ? STATUS_DIFFERS : STATUS_OK;
}

const struct verb cmd_diff = {
	.name = "diff",
	.arguments = NAMED_STORE_ARGUMENT " " NAMED_STORE_ARGUMENT,
	.summary = "compare two snapshots: functions whose calls cost more or less than before",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE | VERB_NAMES | VERB_PAGER,
	.options = options,
	.run = diff_run,
};
