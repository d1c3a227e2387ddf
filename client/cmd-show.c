/* SPDX-License-Identifier: MIT */
/* csight show. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/function-name.h"
#include "client/named-store.h"
#include "client/selection.h"
#include "client/show-json.h"
#include "client/terminal.h"
#include "lib/base/escape.h"
#include "lib/export/timeline.h"
#include "lib/store/trigger-call.h"

enum {
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_LAST,
	OPTION_FROM,
	OPTION_THREAD,
	OPTION_TAIL,
	OPTION_DEPTH,
	OPTION_WIDTH,
	OPTION_SUM,
	OPTION_SUFFIXES,
	OPTION_PHYSICAL
};

static const struct verb_option options[] = {
	[OPTION_SINCE] = { "since", 0, "TIME", SELECTION_SINCE_HELP },
	[OPTION_UNTIL] = { "until", 0, "TIME", SELECTION_UNTIL_HELP },
	[OPTION_LAST] = { "last", 0, "TIME", SELECTION_LAST_HELP },
	[OPTION_FROM] = { "from", 0, "FUNCTION", "begin at the first call of FUNCTION, such as main" },
	[OPTION_THREAD] = { "thread", 0, "THREAD", SELECTION_THREAD_HELP },
	[OPTION_TAIL] = { "tail", 'n', "N", "only the last N calls of each thread, with their callers" },
	[OPTION_DEPTH] = { "depth", 0, "N", "print at most N levels of calls (default 12)" },
	[OPTION_WIDTH] = { "width", 0, "N", "with --sum, print at most N calls of one caller (default 16)" },
	[OPTION_SUM] = { "sum", 0, NULL, "merge the calls of a function with the same callers" },
	[OPTION_SUFFIXES] = { "suffixes", 0, NULL, FUNCTION_NAME_SUFFIXES_HELP },
	[OPTION_PHYSICAL] = { "physical", 0, NULL, NAMED_STORE_PHYSICAL_HELP },
	{ 0 },
};

struct show {
	struct selection selection;
	int64_t tail, depth, width; /* 0: the default */
	bool sum, suffixes, physical;
};

static void print_metadata(const struct csight_object *s)
{
	const struct csight_object *decode = csight_field(s, "decode");
	const char *reason = csight_text(s, "reason");
	char text[1200];

	client_print_snapshot(stdout, s);
	snprintf(text, sizeof(text), "  taken %s by user %" PRId64 ", in %s",
		 format_time((uint64_t)csight_number(s, "time", 0)), csight_number(s, "uid", -1),
		 esc(csight_text(s, "path")));
	terminal_print_wrapped(stdout, text);
	if (csight_number(s, "attempts", 0) > 1)
		printf("  decode attempted %" PRId64 " times%s%s\n", csight_number(s, "attempts", 0),
		       reason ? ": " : "", reason ? esc(reason) : "");
	for (size_t i = 0; i < csight_count(decode, "warnings"); i++)
		printf("  note: %s\n", esc(csight_text(csight_item(decode, "warnings", i), NULL)));
}

static int show_failed(int rc)
{
	/* The reader of standard output may have closed it, which is no error. */
	if (rc >= 0 || rc == -EPIPE)
		return STATUS_OK;
	client_error("cannot show the calls: %s", strerror(-rc));
	return STATUS_FAILED;
}

/* Prints the calls as text. */
static int print_calls(const struct show *show, const struct named_store *input, struct export_options *o)
{
	struct export_result result = { 0 };
	int rc;

	o->budget = 0;
	o->depth = show->depth ? (unsigned)show->depth : o->depth;
	o->width = show->width ? (unsigned)show->width : o->width;
	o->colour = *format_style(stdout, STYLE_HEADING) != 0;
	o->columns = terminal_width();
	o->ascii = !terminal_has_utf8();
	o->names = input->names;
	named_store_print_times(stdout, input->store);
	fflush(stdout);
	rc = show->sum ? export_tree.write(input->store, STDOUT_FILENO, o, &result)
		       : timeline_write(input->store, STDOUT_FILENO, o, &result);
	if (rc >= 0 && !result.slices && !result.gaps)
		printf("no calls were traced\n");
	return show_failed(rc);
}

/* Unless the user gives a time, begins where the call that triggered the snapshot was entered. */
static void begin_at_trigger(const struct show *show, const struct store *s, struct export_options *o)
{
	const struct selection *v = &show->selection;
	struct store_found_call call;

	if (v->since || v->until || v->last || v->from || v->thread || show->tail || show->sum ||
	    store_trigger_call(s, &call) != 1)
		return;
	o->since = call.frame.enter;
	o->depth = MAX(o->depth, call.depth + 1);
	printf("From the call that triggered the snapshot on; --since=0 prints all.\n");
}

/* Prints the calls of a store. snapshot: NULL for a file. */
static int show_calls(struct client *c, const struct show *show, const struct named_store *input,
		      const struct csight_object *snapshot)
{
	struct export_options o = EXPORT_DEFAULTS;
	int rc = selection_apply(c, &show->selection, input->store, &o);

	if (rc != 0)
		return rc;
	o.tail = (uint64_t)show->tail;
	if (c->json) {
		o.budget = 0;
		o.depth = (unsigned)show->depth;
		return show_failed(show_json(input->store, &o, snapshot));
	}
	client_page(c);
	if (snapshot) {
		print_metadata(snapshot);
		printf("\n");
	}
	begin_at_trigger(show, input->store, &o);
	return print_calls(show, input, &o);
}

static struct named_store store_options(const struct show *show)
{
	return (struct named_store){ .fd = -1, .suffixes = show->suffixes, .physical = show->physical };
}

/* Shows the calls alone, since a file has no metadata of the snapshot. */
static int show_file(struct client *c, const struct show *show)
{
	_cleanup_(named_store_close) struct named_store input = store_options(show);
	int rc = named_store_open(c, c->argv[0], &input);

	return rc == STATUS_OK ? show_calls(c, show, &input, NULL) : rc;
}

static int show_snapshot(struct client *c, const struct show *show, const struct csight_object *snapshot)
{
	_cleanup_(named_store_close) struct named_store input = store_options(show);
	const char *id = csight_text(snapshot, "id"), *state = csight_text(snapshot, "state");
	int rc;

	/* A snapshot without a decode has no calls. */
	if (!state || strcmp(state, "ready") != 0) {
		if (c->json)
			client_report_snapshot(c, stdout, snapshot);
		else
			print_metadata(snapshot);
		return STATUS_OK;
	}
	rc = csight_open_file(c->daemon, id, "store", &input.fd);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	rc = named_store_read(c, id, &input);
	return rc == STATUS_OK ? show_calls(c, show, &input, snapshot) : rc;
}

static int show_set_number(struct client *c, struct show *show, int option, const char *value)
{
	int64_t *to = option == OPTION_TAIL ? &show->tail : option == OPTION_DEPTH ? &show->depth : &show->width;

	return parse_i64(value, 1, INT32_MAX, to) == 0
		   ? 0
		   : client_usage(c, "--%s: '%s' is not a number of at least 1", options[option].name, esc(value));
}

static int show_parse_option(struct client *c, struct show *show, int option, const char *value)
{
	const char **const texts[] = {
		[OPTION_SINCE] = &show->selection.since,   [OPTION_UNTIL] = &show->selection.until,
		[OPTION_LAST] = &show->selection.last,     [OPTION_FROM] = &show->selection.from,
		[OPTION_THREAD] = &show->selection.thread,
	};

	switch (option) {
	case OPTION_TAIL:
	case OPTION_DEPTH:
	case OPTION_WIDTH:
		return show_set_number(c, show, option, value);
	case OPTION_SUM:
		show->sum = true;
		return 0;
	case OPTION_SUFFIXES:
		show->suffixes = true;
		return 0;
	case OPTION_PHYSICAL:
		show->physical = true;
		return 0;
	default:
		*texts[option] = value;
		return 0;
	}
}

static int show_parse(struct client *c, struct show *ret)
{
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		rc = show_parse_option(c, ret, o, value);
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? NAMED_STORE_TOO_MANY : NAMED_STORE_MISSING);
	if (ret->width && !ret->sum)
		return client_usage(c, "--width requires --sum");
	if (ret->sum && (ret->tail || ret->selection.from))
		return client_usage(c, "--sum cannot be combined with --tail or --from");
	if (ret->sum && c->json)
		return client_usage(c, "--sum cannot be combined with --json, which has single calls");
	return -1;
}

static int show_run(struct client *c)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	struct show show = { 0 };
	int rc;

	rc = show_parse(c, &show);
	if (rc >= 0)
		return rc;
	if (named_store_is_path(c->argv[0]))
		return show_file(c, &show);
	rc = named_store_check_options(c, c->argv[0]);
	if (rc == 0)
		rc = client_connect(c);
	if (rc == 0)
		rc = client_find(c, c->argv[0], &snapshot);
	return rc == 0 ? show_snapshot(c, &show, snapshot) : rc;
}

const struct verb cmd_show = {
	.name = "show",
	.arguments = NAMED_STORE_ARGUMENT,
	.summary = "print a snapshot: its description, and its calls in order of time",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE | VERB_NAMES | VERB_PAGER,
	.options = options,
	.run = show_run,
};
