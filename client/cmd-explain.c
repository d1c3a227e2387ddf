/* SPDX-License-Identifier: MIT */
/* csight explain. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/call-groups-output.h"
#include "client/client.h"
#include "client/explanation-output.h"
#include "client/format.h"
#include "client/function-name.h"
#include "client/named-store.h"
#include "client/output-files.h"
#include "client/selection.h"
#include "client/terminal.h"
#include "lib/base/escape.h"
#include "lib/export/export.h"

enum {
	OPTION_CALL,
	OPTION_ABOVE,
	OPTION_GROUPS,
	OPTION_BY,
	OPTION_LIMIT,
	OPTION_OUTPUT,
	OPTION_SUFFIXES,
	OPTION_PHYSICAL,
};
enum { LIMIT = 10, WIDTH_OF_FILES = 80 };

static const struct verb_option options[] = {
	[OPTION_CALL] = { "call", 0, "TIME", "explain the call at this time, such as 20ms (default: the slowest)" },
	[OPTION_ABOVE] = { "above", 0, "PERCENTILE", "explain all calls above it, such as p99" },
	[OPTION_GROUPS] = { "groups", 0, NULL, "print groups of calls that call the same functions" },
	[OPTION_BY] = { "by", 0, "MEASURE", "time (default) or instructions" },
	[OPTION_LIMIT] = { "limit", 'n', "N", "print the N largest differences or groups (default 10; 0: all)" },
	[OPTION_OUTPUT] = { "output", 'o', "FILE", "write the calls side by side, as a timeline for Perfetto" },
	[OPTION_SUFFIXES] = { "suffixes", 0, NULL, FUNCTION_NAME_SUFFIXES_HELP },
	[OPTION_PHYSICAL] = { "physical", 0, NULL, NAMED_STORE_PHYSICAL_HELP },
	{ 0 },
};

struct explain {
	struct client *client;
	const char *function, *at, *path;
	const char *name; /* of the snapshot or file */
	double above;     /* share of the calls; 0: not given */
	enum measure measure;
	bool measure_given; /* by --by */
	bool groups;
	uint64_t uncertain; /* error of the times if instructions are compared instead; else 0 */
	int64_t limit;
	struct named_store input;
	uint8_t *roots;
	struct call_list list;
	struct store_call *slow; /* the calls to explain */
	size_t n_slow;
	struct store_call typical;
	struct call_tree tree;
	struct explanation explanation;
};

static int failed(int rc)
{
	client_error("cannot read the calls: %s", client_read_problem(-rc));
	return STATUS_FAILED;
}

/* Finds the functions of the pattern, which must have one name. */
static int explain_select(struct explain *x)
{
	const struct store *s = x->input.store;
	const struct store_function *first = NULL, *other = NULL;

	x->roots = calloc(store_functions(s) + 1, 1);
	if (!x->roots)
		return failed(-ENOMEM);
	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);

		if (!f->calls || !store_name_matches(f->name, x->function))
			continue;
		x->roots[i] = 1;
		if (first && strcmp(first->name, f->name) != 0)
			other = f;
		first = first ? first : f;
	}
	if (!first) {
		function_name_suggest(x->function, &s, 1);
		return STATUS_NOT_FOUND;
	}
	if (!other)
		return STATUS_OK;
	client_error("more than one function matches '%s', such as '%s' and '%s'; name one of them", esc(x->function),
		     esc(first->name), esc(other->name));
	return STATUS_USAGE;
}

/* Selects the call at the time that --call has. */
static int select_at(struct explain *x)
{
	const struct store *s = x->input.store;
	uint64_t first = UINT64_MAX, last = 0, time;
	const struct store_call *found;

	for (size_t i = 0; i < store_threads(s); i++)
		if (store_thread(s, i)->events) {
			first = MIN(first, store_thread(s, i)->first);
			last = MAX(last, store_thread(s, i)->last);
		}
	if (selection_parse_time(x->at, MIN(first, last), last, &time) < 0)
		return client_usage(x->client, "--call: '%s' is not a time such as 1.5s, 20ms or -20ms", esc(x->at));
	found = call_list_at(&x->list, time);
	if (found) {
		x->slow[x->n_slow++] = *found;
		return STATUS_OK;
	}
	client_error("no call of '%s' is at or after %s; 'csight grep' lists its calls", esc(x->function), esc(x->at));
	return STATUS_NOT_FOUND;
}

/* Selects the calls to explain. */
static int explain_calls(struct explain *x)
{
	uint64_t limit;

	x->slow = calloc(x->list.n + 1, sizeof(*x->slow));
	if (!x->slow)
		return failed(-ENOMEM);
	if (x->at)
		return select_at(x);
	if (!x->list.n) {
		client_error("no call of '%s' was traced from enter to leave, so that there is none to explain; --call "
			     "TIME explains what was traced of one",
			     esc(x->function));
		return STATUS_NOT_FOUND;
	}
	limit = call_list_quantile(&x->list, x->above);
	for (size_t i = 0; x->above > 0 && i < x->list.n; i++)
		if (call_list_value(&x->list, &x->list.calls[i]) > limit)
			x->slow[x->n_slow++] = x->list.calls[i];
	/* If calls are equal, or few, none exceeds the limit: the slowest one is explained. */
	if (!x->n_slow)
		x->slow[x->n_slow++] = x->list.slowest;
	return STATUS_OK;
}

/* Compares the calls with a typical one. -ENOENT: there is none. */
static int explain_compare(struct explain *x)
{
	int rc = call_list_typical(&x->list, &x->slow[0], &x->typical);

	if (rc == 0)
		rc = call_tree_init(&x->tree, &x->list);
	if (rc == 0)
		rc = call_tree_add(&x->tree, CALL_TREE_SLOW, x->slow, x->n_slow, 1);
	if (rc == 0)
		rc = call_tree_add(&x->tree, CALL_TREE_TYPICAL, &x->typical, 1, x->n_slow);
	if (rc < 0)
		return rc;
	call_tree_finish(&x->tree);
	rc = explanation_make(&x->explanation, &x->tree, (size_t)x->limit);
	return rc == 0 ? explanation_find_waker(&x->explanation) : rc;
}

static uint64_t bound_of(const struct explain *x, const struct store_call *call)
{
	if (x->measure == MEASURE_INSTRUCTIONS)
		return 0;
	return store_duration_bound(x->input.store, call->thread, call->enter, call->end);
}

/* Returns the largest error bound of the durations that are compared. */
static uint64_t largest_bound(const struct explain *x)
{
	uint64_t bound = bound_of(x, &x->typical);

	for (size_t i = 0; i < x->n_slow; i++)
		bound = MAX(bound, bound_of(x, &x->slow[i]));
	return bound;
}

static uint64_t sum_of_slow(const struct explain *x)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < x->n_slow; i++)
		sum += call_list_value(&x->list, &x->slow[i]);
	return sum;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * True if the difference of the calls is known: larger than its error; or mostly waits, at whose ends the trace has
 * timestamps, so that their error is less than that of other times near them.
 */
static bool is_certain(const struct explain *x)
{
	const struct call_figures *side = x->tree.nodes[CALL_TREE_ROOT].side;
	const uint64_t *preempted = x->tree.preempted;
	uint64_t slow = side[CALL_TREE_SLOW].total + preempted[CALL_TREE_SLOW],
		 typical = side[CALL_TREE_TYPICAL].total + preempted[CALL_TREE_TYPICAL],
		 waits = distance(side[CALL_TREE_SLOW].wait + preempted[CALL_TREE_SLOW],
				  side[CALL_TREE_TYPICAL].wait + preempted[CALL_TREE_TYPICAL]);

	return distance(slow, typical) / x->n_slow > largest_bound(x) || waits > distance(slow, typical) / 2;
}

/* How long suspended calls took is unknown: any of them may be the slowest. */
static bool is_slowest_unknown(const struct explain *x)
{
	return x->list.suspended && !x->at && x->above <= 0;
}

/* A call that the user selected is explained in any case. */
static bool stands_out(const struct explain *x)
{
	if (x->at || x->above > 0)
		return true;
	return !is_slowest_unknown(x) && call_list_stands_out(&x->list, call_list_value(&x->list, &x->slow[0])) &&
	       is_certain(x);
}

static json_object *call_json(const struct explain *x, const struct store_call *call)
{
	json_object *o = json_object_new_object();

	json_add_u64(o, "thread", store_thread(x->input.store, call->thread)->tid);
	json_add_u64(o, "time", call->enter);
	json_add_u64(o, "duration", call->ns);
	json_add_u64(o, "instructions", call->instructions);
	json_add_bool(o, "whole", call->whole);
	if (bound_of(x, call))
		json_add_u64(o, "bound", bound_of(x, call));
	return o;
}

static void print_json(const struct explain *x, const struct explanation_output *o, bool found)
{
	_cleanup_json_ json_object *all = json_object_new_object();

	json_add_bytes(all, "function", explanation_function(&x->explanation, CALL_TREE_ROOT)->name);
	json_add_str(all, "measure", x->measure == MEASURE_TIME ? "time" : "instructions");
	json_add_u64(all, "calls", x->list.whole);
	json_add_u64(all, "incomplete", x->list.incomplete);
	json_add_u64(all, "suspended", x->list.suspended);
	json_add_bool(all, "slowest_unknown", is_slowest_unknown(x));
	if (x->list.n) {
		json_add_u64(all, "median", call_list_quantile(&x->list, 0.5));
		json_add_u64(all, "p99", call_list_quantile(&x->list, 0.99));
	}
	json_add_bool(all, "stands_out", found);
	json_add_u64(all, "slow_calls", x->n_slow);
	json_add(all, "slow", call_json(x, &x->slow[0]));
	json_add(all, "typical", call_json(x, &x->typical));
	json_add_i64(all, "difference", x->explanation.difference);
	json_add(all, "lines", found ? explanation_output_json(o) : json_object_new_array());
	client_print_json(all);
}

static const char *value_text(const struct explain *x, const struct store_call *call)
{
	return x->measure == MEASURE_TIME ? format_duration_within(call->ns, bound_of(x, call))
					  : format_plural(call->instructions, "instruction");
}

/* Prints a text in lines that fit the terminal. */
__attribute__((format(printf, 1, 2))) static void print_fitting(const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list list;

	va_start(list, format);
	if (vasprintf(&text, format, list) < 0)
		text = NULL;
	va_end(list);
	if (text)
		terminal_print_wrapped(stdout, text);
}

static void print_call(const struct explain *x, const char *what, const struct store_call *call)
{
	print_fitting("%-8s %s at %.6f ms in thread %u%s", what, value_text(x, call),
		      (double)named_store_since_start(x->input.store, call->enter) / 1e6,
		      store_thread(x->input.store, call->thread)->tid,
		      call->whole ? "" : ", not traced from enter to leave");
}

/* Prints that calls of which the trace has a part alone may be the slowest. */
static void print_incomplete(const struct explain *x)
{
	const struct call_list *l = &x->list;
	const struct store_call *longest = NULL;

	if (!l->incomplete)
		return;
	for (size_t i = 0; i < l->n_parts; i++)
		if (!longest || call_list_value(l, &l->parts[i]) > call_list_value(l, longest))
			longest = &l->parts[i];
	printf("left out: %s not traced from enter to leave\n", format_plural(l->incomplete, "call"));
	if (longest && (!l->n || call_list_value(l, longest) > call_list_value(l, &l->slowest)))
		print_fitting("one took longer: at least %s; to explain it: --call=%.6fms", value_text(x, longest),
			      (double)named_store_since_start(x->input.store, longest->enter) / 1e6);
}

static const char *quantile_text(const struct explain *x, const struct explanation_output *o, double share)
{
	return explanation_output_value(o, call_list_quantile(&x->list, share));
}

static void print_head(const struct explain *x, const struct explanation_output *o, const char *name)
{
	if (x->uncertain)
		print_fitting("compared by instructions: times are known only within %s",
			      format_duration(x->uncertain));
	print_fitting("%s: %s%s%s%s%s%s", name, format_plural(x->list.whole, "call"),
		      x->list.n < x->list.whole ? ", some of which are considered" : "", x->list.n ? ", median " : "",
		      x->list.n ? quantile_text(x, o, 0.5) : "", x->list.n ? ", p99 " : "",
		      x->list.n ? quantile_text(x, o, 0.99) : "");
	print_incomplete(x);
	if (x->n_slow > 1)
		printf("slow:    %s, on average %s\n", format_plural(x->n_slow, "call"),
		       explanation_output_value(o, sum_of_slow(x) / x->n_slow));
	else
		print_call(x, x->at ? "call:" : "slowest:", &x->slow[0]);
	print_call(x, "typical:", &x->typical);
}

static void print_text(const struct explain *x, const struct explanation_output *o, bool found)
{
	const struct store_function *f = explanation_function(&x->explanation, CALL_TREE_ROOT);
	const char *name = fit_text(o->fit, esc(named_store_name(&x->input, f)), o->width * 2 / 3);

	client_page(x->client);
	print_head(x, o, name);
	if (is_slowest_unknown(x))
		print_fitting(
		    "\nwhich call of %s was the slowest is unknown: %s suspended, as of goroutines, and may have "
		    "gone on in another thread; --call=TIME explains one call, --above=p99 the slowest of the others",
		    name, x->list.suspended == 1 ? "one was" : "some were");
	else if (!found)
		print_fitting("\nno call of %s stands out: the slowest is within the spread of the others", name);
	else if (!x->explanation.n)
		printf("\nno difference\n");
	if (!found || !x->explanation.n)
		return;
	printf("\n");
	explanation_output_text(o, stdout);
}

/* Writes a timeline of the slow call and the typical one. */
static int explain_write(const struct explain *x)
{
	const char *const names[] = { "slow", "typical" };
	const struct store_call calls[] = { x->slow[0], x->typical };
	const struct store_extract from = { .roots = x->roots, .calls = calls, .names = names, .n = ELEMENTS(calls) };
	_cleanup_close_ int fd = memfd_create("csight-calls", MFD_CLOEXEC), to = -1;
	_cleanup_(store_closep) struct store *s = NULL;
	struct export_options o = EXPORT_DEFAULTS;
	struct export_result result;
	int rc = fd < 0 ? -errno : store_extract_calls(x->input.store, fd, &from);

	if (rc == 0)
		rc = store_open(fd, &s);
	if (rc < 0)
		return failed(rc);
	rc = output_files_open(x->path, O_WRONLY, x->name, x->input.fd, &to);
	if (rc != STATUS_OK)
		return rc;
	o.budget = 0;
	rc = output_files_end(to, export_perfetto.write(s, to, &o, &result));
	if (rc < 0) {
		client_error("cannot write %s: %s%s", esc(x->path), strerror(-rc), client_write_advice(-rc));
		return STATUS_FAILED;
	}
	if (!x->client->json)
		fprintf(stderr, "wrote %s: %s side by side\n", esc(x->path), format_plural(result.slices, "call"));
	return STATUS_OK;
}

static int explain_print(struct explain *x)
{
	_cleanup_(fit_done) struct fit fit = { .ascii = !terminal_has_utf8() };
	const struct explanation_output o = { .explanation = &x->explanation,
					      .names = x->input.names,
					      .fit = &fit,
					      .calls = x->n_slow,
					      .bound = largest_bound(x),
					      .measure = x->measure,
					      .width = terminal_width() ? terminal_width() : WIDTH_OF_FILES };
	bool found = stands_out(x);

	if (x->client->json)
		print_json(x, &o, found);
	else
		print_text(x, &o, found);
	return x->path ? explain_write(x) : STATUS_OK;
}

static void explain_forget(struct explain *x)
{
	explanation_done(&x->explanation);
	call_tree_done(&x->tree);
	call_list_done(&x->list);
	free(x->slow);
	x->slow = NULL;
	x->n_slow = 0;
}

/* Reads and compares the calls. */
static int explain_read(struct explain *x)
{
	int rc = call_list_read(&x->list, x->input.store, x->roots, x->measure);

	if (rc < 0)
		return failed(rc);
	rc = explain_calls(x);
	if (rc != 0)
		return rc;
	rc = explain_compare(x);
	if (rc == -ENOENT) {
		client_error("'%s' has no other call to compare with", esc(x->function));
		return STATUS_NOT_FOUND;
	}
	return rc < 0 ? failed(rc) : STATUS_OK;
}

static void print_groups(const struct explain *x, const struct call_groups *g)
{
	size_t n = x->limit ? MIN(g->n, (size_t)x->limit) : g->n;

	if (x->client->json) {
		_cleanup_json_ json_object *all = json_object_new_object();

		json_add_u64(all, "calls", x->list.whole);
		json_add_u64(all, "grouped", g->calls);
		json_add_u64(all, "incomplete", x->list.incomplete);
		json_add(all, "groups", call_groups_output_json(g, n));
		client_print_json(all);
		return;
	}
	client_page(x->client);
	printf("%s: %s, %s%s\n", esc(x->function), format_plural(x->list.whole, "call"), format_plural(g->n, "group"),
	       g->calls < x->list.whole ? "; some of the calls are considered" : "");
	call_groups_output_text(g, n, bound_of(x, &x->list.slowest), x->input.names, stdout);
}

static int explain_groups(struct explain *x)
{
	_cleanup_(call_groups_done) struct call_groups groups = { 0 };
	int rc = call_list_read(&x->list, x->input.store, x->roots, x->measure);

	if (rc == 0)
		rc = call_groups_read(&groups, &x->list);
	if (rc < 0)
		return failed(rc);
	if (!groups.n) {
		client_error("no call of '%s' was traced from enter to leave, so that there is none to group",
			     esc(x->function));
		return STATUS_NOT_FOUND;
	}
	print_groups(x, &groups);
	return STATUS_OK;
}

static int explain_all(struct explain *x)
{
	int rc = explain_select(x);

	if (rc == 0 && x->groups)
		return explain_groups(x);
	if (rc == 0)
		rc = explain_read(x);
	if (rc != 0)
		return rc;
	/* Counts of instructions are exact where times are not. */
	if (!x->measure_given && !is_certain(x) && largest_bound(x)) {
		x->uncertain = largest_bound(x);
		x->measure = MEASURE_INSTRUCTIONS;
		explain_forget(x);
		rc = explain_read(x);
	}
	return rc == 0 ? explain_print(x) : rc;
}

/* Parses "p99.9" or "99.9%". */
static int explain_set_above(struct explain *x, const char *value)
{
	const char *digits = value + (*value == 'p');
	char *end = NULL;
	double percent = strspn(digits, "0123456789.") ? strtod(digits, &end) : 0;

	if (end && *end == '%')
		end++;
	if (!end || *end || percent <= 0 || percent >= 100)
		return client_usage(x->client, "--above: '%s' is not a percentile such as p99", esc(value));
	x->above = percent / 100;
	return 0;
}

static int explain_parse_option(struct explain *x, int option, const char *value)
{
	struct client *c = x->client;

	switch (option) {
	case OPTION_CALL:
		x->at = value;
		return 0;
	case OPTION_ABOVE:
		return explain_set_above(x, value);
	case OPTION_GROUPS:
		x->groups = true;
		return 0;
	case OPTION_BY:
		x->measure_given = true;
		x->measure = strcmp(value, "instructions") == 0 ? MEASURE_INSTRUCTIONS : MEASURE_TIME;
		return x->measure == MEASURE_INSTRUCTIONS || strcmp(value, "time") == 0
			   ? 0
			   : client_usage(c, "unknown measure '%s'; there are time and instructions", esc(value));
	case OPTION_OUTPUT:
		x->path = value;
		return 0;
	case OPTION_SUFFIXES:
		x->input.suffixes = true;
		return 0;
	case OPTION_PHYSICAL:
		x->input.physical = true;
		return 0;
	default:
		return parse_i64(value, 0, INT32_MAX, &x->limit) == 0
			   ? 0
			   : client_usage(c, "--limit: '%s' is not a number", esc(value));
	}
}

static int explain_parse(struct explain *x)
{
	struct client *c = x->client;
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		rc = explain_parse_option(x, o, value);
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (x->at && x->above > 0)
		return client_usage(c, "--call and --above exclude each other");
	if (x->groups && (x->at || x->above > 0 || x->path))
		return client_usage(c, "--groups is of all calls: --call, --above and -o do not apply");
	if (c->argc != 1 && c->argc != 2)
		return client_usage(c, c->argc ? "only one function and one snapshot are accepted"
					       : "a function is required");
	x->function = c->argv[0];
	return -1;
}

static void explain_done(struct explain *x)
{
	explain_forget(x);
	free(x->roots);
	named_store_close(&x->input);
}

static int explain_run(struct client *c)
{
	_cleanup_(explain_done) struct explain x = { .client = c, .limit = LIMIT, .input = NAMED_STORE_NONE };
	int rc = explain_parse(&x);

	if (rc >= 0)
		return rc;
	x.name = c->argc > 1 ? c->argv[1] : "last";
	rc = named_store_open(c, x.name, &x.input);
	return rc == 0 ? explain_all(&x) : rc;
}

const struct verb cmd_explain = {
	.name = "explain",
	.arguments = "FUNCTION [" NAMED_STORE_ARGUMENT "]",
	.summary = "say why the slowest call of a function took longer than others",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE | VERB_NAMES | VERB_PAGER,
	.options = options,
	.run = explain_run,
};
