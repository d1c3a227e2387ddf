/* SPDX-License-Identifier: MIT */
/* csight status. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/text-table.h"
#include "lib/base/escape.h"

static void print_status(struct client *c, const struct csight_object *s)
{
	const char *emu = csight_text(s, "emuSocket"), *opencsd = csight_text(s, "opencsd");

	printf("csightd %s at %s, process %" PRId64 " of user %" PRId64 ", up for %s\n", esc(csight_text(s, "version")),
	       esc(csight_socket(c->daemon)), csight_number(s, "pid", 0), csight_number(s, "uid", -1),
	       format_duration(1000000000u * (uint64_t)csight_number(s, "uptime", 0)));
	printf("  capture    %s%s%s\n", esc(csight_text(s, "capture")), emu ? ", emulated programs at " : "",
	       emu ? esc(emu) : "");
	printf("  targets    %s\n", format_count((uint64_t)csight_number(s, "targets", 0)));
	printf("  snapshots  %s, %s in %s\n", format_count((uint64_t)csight_number(s, "snapshots", 0)),
	       format_size((uint64_t)csight_number(s, "spoolBytes", 0)), esc(csight_text(s, "spool")));
	printf("  jobs       %s\n", format_count((uint64_t)csight_number(s, "jobs", 0)));
	if (opencsd)
		printf("  OpenCSD    %s\n", esc(opencsd));
	for (size_t i = 0; i < csight_count(s, "warnings"); i++)
		printf("  %swarning%s    %s\n", format_style(stdout, STYLE_BAD), format_style(stdout, STYLE_PLAIN),
		       esc(csight_text(csight_item(s, "warnings", i), NULL)));
}

/* An amount in its unit. */
static const char *format_use(const struct csight_object *use, const char *field)
{
	const char *unit = csight_text(use, "unit");
	uint64_t n = (uint64_t)csight_number(use, field, 0);

	if (csight_number(use, field, -1) < 0)
		return "unlimited";
	if (unit && strcmp(unit, "bytes") == 0)
		return format_size(n);
	return unit ? format_duration(n * 1000000) : format_count(n);
}

static void add_use(struct text_table *t, const char *who, const struct csight_object *use)
{
	int64_t used = csight_number(use, "used", 0), limit = csight_number(use, "limit", INT64_MAX);

	text_table_add(t, STYLE_PLAIN, who);
	text_table_add(t, STYLE_PLAIN, csight_text(use, "resource"));
	text_table_add(t, used >= limit ? STYLE_BAD : STYLE_PLAIN, format_use(use, "used"));
	text_table_add(t, STYLE_PLAIN, format_use(use, "limit"));
	text_table_add(t, STYLE_PLAIN, csight_text(use, "setting"));
}

/* all: also what is not in use. */
static void add_uses(struct text_table *t, const char *who, const struct csight_object *list, bool all)
{
	for (size_t i = 0; i < csight_count(list, NULL); i++)
		if (all || csight_number(csight_item(list, NULL, i), "used", 0) > 0)
			add_use(t, who, csight_item(list, NULL, i));
}

/* Of the caller; root sees what all users hold. */
static void print_use(const struct csight_object *s)
{
	static const char *const head[] = { "USER", "RESOURCE", "USED>", "LIMIT>", "SETTING" };
	_cleanup_(text_table_freep) struct text_table *t = text_table_new(head, ELEMENTS(head));
	char who[32];

	if (csight_field(s, "machine")) {
		add_uses(t, "all", csight_field(s, "machine"), true);
		for (size_t i = 0; i < csight_count(s, "users"); i++) {
			const struct csight_object *user = csight_item(s, "users", i);

			snprintf(who, sizeof(who), "%" PRId64, csight_number(user, "uid", -1));
			add_uses(t, who, csight_field(user, "use"), false);
		}
	} else {
		snprintf(who, sizeof(who), "%u", getuid());
		add_uses(t, who, csight_field(s, "use"), true);
	}
	text_table_print(t, stdout);
}

static int status_run(struct client *c)
{
	_cleanup_object_ struct csight_object *status = NULL;

	if (client_query(c, csight_status, &status)) {
		print_status(c, status);
		print_use(status);
	}
	return c->status;
}

const struct verb cmd_status = {
	.name = "status",
	.arguments = "",
	.summary = "print the status of csightd",
	.flags = VERB_SOCKET | VERB_JSON,
	.run = status_run,
};
