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
#include "lib/base/escape.h"

enum {
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_THREAD,
	OPTION_TAIL,
	OPTION_DEPTH,
	OPTION_WIDTH,
	OPTION_SUFFIXES,
	OPTION_PHYSICAL
};

static const struct verb_option options[] = {
	[OPTION_SINCE] = { "since", 0, "TIME", SELECTION_SINCE_HELP },
	[OPTION_UNTIL] = { "until", 0, "TIME", SELECTION_UNTIL_HELP },
	[OPTION_THREAD] = { "thread", 0, "THREAD", SELECTION_THREAD_HELP },
	[OPTION_TAIL] = { "tail", 'n', "N", "only about the last N calls of each thread" },
	[OPTION_DEPTH] = { "depth", 0, "N", "print at most N levels of calls" },
	[OPTION_WIDTH] = { "width", 0, "N", "print at most N calls of one caller" },
	[OPTION_SUFFIXES] = { "suffixes", 0, NULL, FUNCTION_NAME_SUFFIXES_HELP },
	[OPTION_PHYSICAL] = { "physical", 0, NULL, NAMED_STORE_PHYSICAL_HELP },
	{ 0 },
};

struct show {
	struct selection selection;
	int64_t tail, depth, width; /* 0: the default of the tree format */
	bool suffixes, physical;
};

static void print_metadata(const struct csight_object *s)
{
	const struct csight_object *decode = csight_field(s, "decode");
	const char *reason = csight_text(s, "reason");

	client_print_snapshot(stdout, s);
	printf("  taken %s by user %" PRId64 ", in %s\n", format_time((uint64_t)csight_number(s, "time", 0)),
	       csight_number(s, "uid", -1), esc(csight_text(s, "path")));
	if (csight_number(s, "attempts", 0) > 1)
		printf("  decode attempted %" PRId64 " times%s%s\n", csight_number(s, "attempts", 0),
		       reason ? ": " : "", reason ? esc(reason) : "");
	for (size_t i = 0; i < csight_count(decode, "warnings"); i++)
		printf("  note: %s\n", esc(csight_text(csight_item(decode, "warnings", i), NULL)));
}

static int print_tree(struct client *c, const struct show *show, const struct store *s, int64_t only)
{
	struct export_options o = EXPORT_DEFAULTS;
	struct export_result result = { 0 };
	int rc;

	rc = selection_apply(c, &show->selection, s, &o);
	if (rc != 0)
		return rc;
	if (only >= 0 && o.tid >= 0 && o.tid != only)
		return STATUS_OK;
	o.tid = only >= 0 ? only : o.tid;
	o.budget = show->tail ? (uint64_t)show->tail : 0;
	o.depth = show->depth ? (unsigned)show->depth : o.depth;
	o.width = show->width ? (unsigned)show->width : o.width;
	o.colour = *format_style(stdout, STYLE_HEADING) != 0;
	rc = export_tree.write(s, STDOUT_FILENO, &o, &result);
	if (rc >= 0 || rc == -EPIPE)
		return STATUS_OK;
	client_error("cannot show the calls: %s", strerror(-rc));
	return STATUS_FAILED;
}

static int show_calls(struct client *c, const struct show *show, const struct store *s)
{
	int rc = 0;

	named_store_print_times(stdout, s);
	fflush(stdout);
	if (!show->tail)
		return print_tree(c, show, s, -1);
	/* Print each thread by itself: the last N calls of all threads may be those of one busy thread. */
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++)
		rc = print_tree(c, show, s, store_thread(s, i)->tid);
	return rc;
}

static struct named_store store_options(const struct show *show)
{
	return (struct named_store){ .fd = -1, .suffixes = show->suffixes, .physical = show->physical };
}

/* Shows the calls alone, since a file has no metadata of the snapshot. */
static int show_file(struct client *c, const struct show *show)
{
	_cleanup_(named_store_close) struct named_store input = store_options(show);
	int rc = c->json ? client_usage(c, "--json prints the daemon's description of a snapshot, but this is a file")
			 : named_store_open(c, c->argv[0], &input);

	return rc == STATUS_OK ? show_calls(c, show, input.store) : rc;
}

static int show_snapshot(struct client *c, const struct show *show, const char *id)
{
	_cleanup_(named_store_close) struct named_store input = store_options(show);
	int rc;

	rc = csight_open_file(c->daemon, id, "store", &input.fd);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	rc = named_store_read(c, id, &input);
	if (rc != STATUS_OK)
		return rc;
	printf("\n");
	return show_calls(c, show, input.store);
}

static int show_parse(struct client *c, struct show *ret)
{
	const char *value, *number = NULL;
	int64_t *to = NULL;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		number = o >= OPTION_TAIL && o <= OPTION_WIDTH ? value : NULL;
		if (o == OPTION_SINCE)
			ret->selection.since = value;
		else if (o == OPTION_UNTIL)
			ret->selection.until = value;
		else if (o == OPTION_THREAD)
			ret->selection.thread = value;
		else if (o == OPTION_SUFFIXES)
			ret->suffixes = true;
		else if (o == OPTION_PHYSICAL)
			ret->physical = true;
		else
			to = o == OPTION_TAIL ? &ret->tail : o == OPTION_DEPTH ? &ret->depth : &ret->width;
		if (number && parse_i64(number, 1, INT32_MAX, to) < 0)
			return client_usage(c, "--%s: '%s' is not a number of at least 1", options[o].name,
					    esc(number));
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? NAMED_STORE_TOO_MANY : NAMED_STORE_MISSING);
	return -1;
}

static int show_run(struct client *c)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	struct show show = { 0 };
	const char *state;
	int rc;

	rc = show_parse(c, &show);
	if (rc >= 0)
		return rc;
	if (named_store_is_path(c->argv[0]))
		return show_file(c, &show);
	rc = client_connect(c);
	if (rc == 0)
		rc = client_find(c, c->argv[0], &snapshot);
	if (rc != 0)
		return rc;
	if (c->json) {
		printf("{\"snapshot\":%s}\n", csight_json(snapshot));
		return STATUS_OK;
	}
	print_metadata(snapshot);
	state = csight_text(snapshot, "state");
	if (!state || strcmp(state, "ready") != 0)
		return STATUS_OK;
	return show_snapshot(c, &show, csight_text(snapshot, "id"));
}

const struct verb cmd_show = {
	.name = "show",
	.arguments = NAMED_STORE_ARGUMENT,
	.summary = "print a snapshot: its description, and its calls as a tree",
	.flags = VERB_SOCKET | VERB_JSON | VERB_TRACE,
	.options = options,
	.run = show_run,
};
