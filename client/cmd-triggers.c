/* SPDX-License-Identifier: MIT */
/* csight triggers. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/text-table.h"
#include "lib/base/escape.h"
#include "lib/csight/trigger-calls.h"

enum { OPTION_ENABLE, OPTION_DISABLE, OPTION_REMOVE };

static const struct verb_option options[] = {
	[OPTION_ENABLE] = { "enable", 0, "ID", "watch again" },
	[OPTION_DISABLE] = { "disable", 0, "ID", "stop watching, and keep the counts" },
	[OPTION_REMOVE] = { "remove", 0, "ID", "remove the trigger; its snapshots remain" },
	{ 0 },
};

static void add_row(struct text_table *table, const struct csight_object *t)
{
	const struct csight_object *became = csight_field(t, "became");
	const char *rules = csight_text(t, "rules"), *mechanism = csight_text(t, "mechanism");
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, csight_number(t, "id", 0));
	text_table_add(table, STYLE_PLAIN, text);
	snprintf(text, sizeof(text), "%" PRId64, csight_number(t, "pid", 0));
	text_table_add(table, STYLE_PLAIN, text);
	text_table_add(table, STYLE_PLAIN, csight_text(t, "name"));
	text_table_add(table, STYLE_PLAIN, csight_text(t, "state"));
	text_table_add(table, STYLE_PLAIN, format_count((uint64_t)csight_number(t, "hits", 0)));
	text_table_add(table, STYLE_PLAIN, format_count((uint64_t)csight_number(became, "taken", 0)));
	text_table_add(table, STYLE_PLAIN,
		       csight_number(t, "longest", 0) ? format_duration((uint64_t)csight_number(t, "longest", 0))
						      : "-");
	text_table_add(table, STYLE_PLAIN, mechanism ? mechanism : "-");
	text_table_add(table, STYLE_PLAIN, rules && *rules ? rules : "-");
	text_table_add(table, STYLE_PLAIN, csight_text(t, "condition"));
}

/* Prints the cost of a hit, once for each mechanism, and for how long each trigger was not watched. */
static void print_costs(const struct csight_object *list)
{
	for (size_t i = 0; i < csight_count(list, "triggers"); i++) {
		const struct csight_object *t = csight_item(list, "triggers", i);
		const char *mechanism = csight_text(t, "mechanism"), *cost = csight_text(t, "cost");
		bool known = !mechanism || !cost;

		for (size_t k = 0; k < i && !known; k++) {
			const char *other = csight_text(csight_item(list, "triggers", k), "mechanism");

			known = other && strcmp(other, mechanism) == 0;
		}
		if (!known)
			printf("%s: %s for each hit\n", esc(mechanism), esc(cost));
		if (csight_number(t, "rests", 0))
			printf("trigger %" PRId64 " was not watched for %s in all: its hits came too fast\n",
			       csight_number(t, "id", 0), format_duration((uint64_t)csight_number(t, "rested", 0)));
	}
}

/* Prints the number of hits of each condition, if the trigger has several. */
static void print_conditions(const struct csight_object *t)
{
	for (size_t i = 0; i < csight_count(t, "conditions"); i++) {
		const struct csight_object *is = csight_item(t, "conditions", i);

		if (i == 0)
			printf("trigger %" PRId64 ": ", csight_number(t, "id", 0));
		printf("%s%s: %s", i ? "; " : "", esc(csight_text(is, "condition")),
		       format_plural((uint64_t)csight_number(is, "hits", 0), "hit"));
		if (csight_number(is, "completed", -1) >= 0)
			printf(", the completing one %s",
			       format_plural((uint64_t)csight_number(is, "completed", 0), "time"));
	}
	if (csight_count(t, "conditions"))
		putchar('\n');
}

static int list_triggers(struct client *c)
{
	static const char *const head[] = { "ID>",         "PID>",      "NAME~",     "STATE",  "HITS>5",
					    "SNAPSHOTS>6", "LONGEST>7", "MECHANISM", "RULES~", "CONDITION~" };
	_cleanup_object_ struct csight_object *list = NULL;
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	int rc = trigger_call_list(c->daemon, &list);

	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (c->json) {
		client_print_json_text(csight_json(list));
		return STATUS_OK;
	}
	if (csight_count(list, "triggers") == 0) {
		fprintf(stderr, "no triggers; set one with 'csight watch --pid N --function NAME'\n");
		return STATUS_OK;
	}
	client_page(c);
	t = text_table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < csight_count(list, "triggers"); i++)
		add_row(t, csight_item(list, "triggers", i));
	text_table_print(t, stdout);
	for (size_t i = 0; i < csight_count(list, "triggers"); i++)
		print_conditions(csight_item(list, "triggers", i));
	print_costs(list);
	return STATUS_OK;
}

static int triggers_run(struct client *c)
{
	const char *value, *text = NULL;
	uint64_t id = 0;
	int o, what = -1, rc;

	while ((o = client_option(c, &value)) >= 0) {
		if (text)
			return client_usage(c, "only one of --enable, --disable and --remove may be given");
		text = value;
		what = o;
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc)
		return client_usage(c, "unexpected argument '%s'", esc(c->argv[0]));
	if (text && (parse_u64(text, UINT32_MAX, &id) < 0 || id == 0))
		return client_usage(c, "'%s' is not the ID of a trigger", esc(text));
	rc = client_connect(c);
	if (rc != 0)
		return rc;
	if (!text)
		return list_triggers(c);
	if (what == OPTION_REMOVE)
		rc = trigger_call_remove(c->daemon, (uint32_t)id);
	else
		rc = trigger_call_enable(c->daemon, (uint32_t)id, what == OPTION_ENABLE);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (c->json)
		printf("{}\n");
	else
		printf("trigger %" PRIu64 " is %s\n", id,
		       what == OPTION_REMOVE   ? "removed"
		       : what == OPTION_ENABLE ? "enabled"
					       : "disabled");
	return STATUS_OK;
}

const struct verb cmd_triggers = {
	.name = "triggers",
	.arguments = "[--enable ID | --disable ID | --remove ID]",
	.summary = "list triggers, or change one",
	.flags = VERB_SOCKET | VERB_JSON | VERB_PAGER,
	.options = options,
	.run = triggers_run,
};
