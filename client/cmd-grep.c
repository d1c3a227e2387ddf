/* SPDX-License-Identifier: MIT */
/* csight grep. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/named-store.h"
#include "client/selection.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

enum { OPTION_SINCE, OPTION_UNTIL, OPTION_THREAD, OPTION_LONGER, OPTION_LIMIT };
enum { LIMIT = 1000 };

static const struct verb_option options[] = {
	[OPTION_SINCE] = { "since", 0, "TIME", SELECTION_SINCE_HELP },
	[OPTION_UNTIL] = { "until", 0, "TIME", SELECTION_UNTIL_HELP },
	[OPTION_THREAD] = { "thread", 0, "THREAD", SELECTION_THREAD_HELP },
	[OPTION_LONGER] = { "longer", 0, "TIME", "only calls of at least this duration, such as 5ms" },
	[OPTION_LIMIT] = { "limit", 'n', "N", "stop after N calls (default 1000; 0: no limit)" },
	{ 0 },
};

struct grep {
	struct client *client;
	const char *function;
	struct selection selection;
	const char *longer;
	int64_t limit;
	uint64_t least_ns;
	struct named_store input;
	struct export_options options;
	uint8_t *wanted; /* for each function: whether it matches */
	uint64_t found, matching;
};

static const char *frame_name(const struct grep *g, const struct store_frame *f)
{
	return f ? store_function(g->input.store, f->function)->name : "";
}

static void print_call(const struct grep *g, const struct store_thread *t, const struct store_event *e,
		       const struct store_frame *caller)
{
	const struct store_site *site = store_site(g->input.store, e->frame.site);
	uint64_t ns = e->time - e->frame.enter;
	bool whole = e->frame.kind != CALL_INFERRED && e->frame.kind != CALL_RESUMED && e->kind != LEAVE_GAP &&
		     e->kind != LEAVE_END && e->kind != LEAVE_SWITCH;

	if (g->client->json) {
		_cleanup_json_ json_object *o = json_object_new_object();

		json_add_bytes(o, "name", frame_name(g, &e->frame));
		json_add_u64(o, "thread", t->tid);
		json_add_u64(o, "time", e->frame.enter);
		json_add_u64(o, "duration", ns);
		json_add_u64(o, "instructions", e->instructions - e->frame.instructions);
		json_add_u64(o, "depth", e->depth);
		json_add_bool(o, "whole", whole);
		json_add_str(o, "left", calls_leave_str(e->kind));
		if (caller)
			json_add_bytes(o, "caller", frame_name(g, caller));
		if (site)
			json_add_bool(o, "inlined", true);
		if (site && site->file[0]) {
			json_add_bytes(o, "call_file", site->file);
			json_add_u64(o, "call_line", site->line);
		}
		printf("%s\n",
		       json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
		return;
	}
	printf("%12.6f ms  %10s%s  %8u  %s", (double)named_store_since_start(g->input.store, e->frame.enter) / 1e6,
	       format_duration(ns), whole ? " " : "+", t->tid, esc(frame_name(g, &e->frame)));
	if (caller)
		printf("  < %s", esc(frame_name(g, caller)));
	if (site)
		printf(" (inlined");
	if (site && site->file[0])
		printf(" at %s:%u", esc(site->file), site->line);
	if (site)
		putchar(')');
	putchar('\n');
}

/* Prints the matching calls of a thread, each when it ends. 1: continue; 0: the limit is reached; or negative errno. */
static int grep_thread(struct grep *g, size_t index)
{
	const struct store_thread *t = store_thread(g->input.store, index);
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	uint64_t until = g->options.until ? g->options.until : UINT64_MAX;
	struct store_event e;
	int rc = store_iter_new(g->input.store, index, &it);

	if (rc == 0 && g->options.since > t->first)
		rc = store_iter_seek(it, g->options.since);
	if (rc < 0)
		return rc;
	store_iter_filter(it, g->wanted);
	while ((rc = store_iter_next(it, &e)) == 1) {
		const struct store_frame *stack;
		size_t depth;

		if (e.type != STORE_LEAVE) {
			/* Calls that begin later do not match; stop once no earlier call is open. */
			if (e.time > until && (e.type == STORE_GAP || e.depth == 0))
				break;
			continue;
		}
		if (!g->wanted[e.frame.function] || e.frame.enter > until || e.time - e.frame.enter < g->least_ns)
			continue;
		g->matching++;
		if (g->limit && g->found >= (uint64_t)g->limit)
			return 0;
		g->found++;
		depth = store_iter_stack(it, &stack);
		print_call(g, t, &e, depth ? &stack[depth - 1] : NULL);
	}
	return rc < 0 ? rc : 1;
}

static int grep_all(struct grep *g)
{
	const struct store *s = g->input.store;
	int rc = 1;

	if (!g->client->json)
		printf("%15s  %10s   %8s  FUNCTION < CALLER\n", "TIME", "DURATION", "THREAD");
	for (size_t i = 0; rc > 0 && i < store_threads(s); i++)
		if (store_thread(s, i)->events &&
		    (g->options.tid < 0 || store_thread(s, i)->tid == (uint64_t)g->options.tid))
			rc = grep_thread(g, i);
	if (rc < 0) {
		client_error("cannot read the calls: %s", strerror(-rc));
		return STATUS_FAILED;
	}
	if (rc == 0 && !g->client->json)
		printf("more than %s; --limit=0 shows all\n", format_plural(g->found, "call"));
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
		g->wanted[i] = named_store_matches_name(store_function(s, i)->name, g->function);
		some = some || g->wanted[i];
	}
	if (some)
		return STATUS_OK;
	client_error("no function '%s' ran in this trace; 'csight report' lists the functions that ran",
		     esc(g->function));
	return STATUS_NOT_FOUND;
}

static int grep_parse(struct client *c, struct grep *g)
{
	const char *value;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		const char **const to[] = { [OPTION_SINCE] = &g->selection.since,
					    [OPTION_UNTIL] = &g->selection.until,
					    [OPTION_THREAD] = &g->selection.thread,
					    [OPTION_LONGER] = &g->longer };

		if (o != OPTION_LIMIT)
			*to[o] = value;
		else if (parse_i64(value, 0, INT32_MAX, &g->limit) < 0)
			return client_usage(c, "--limit: '%s' is not a number", esc(value));
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (g->longer && selection_parse_duration(g->longer, &g->least_ns) < 0)
		return client_usage(c, "--longer: '%s' is not a duration such as 1.5s, 20ms or 100us", esc(g->longer));
	if (c->argc != 2)
		return client_usage(c, c->argc < 2 ? "a function and a snapshot are required"
						   : "only one function and one snapshot are accepted");
	return -1;
}

static void grep_done(struct grep *g)
{
	free(g->wanted);
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
	.flags = VERB_SOCKET | VERB_JSON,
	.options = options,
	.run = grep_run,
};
