/* SPDX-License-Identifier: MIT */
/* csight list. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/text-table.h"
#include "lib/base/escape.h"

static void add_snapshot_row(struct text_table *t, const struct csight_object *s)
{
	const char *state = csight_text(s, "state");
	const struct csight_object *ended = csight_field(s, "ended");
	enum format_style style = STYLE_PLAIN;
	char text[32];

	if (state && strcmp(state, "raw") == 0)
		style = STYLE_BAD;
	else if (state && strcmp(state, "ready") == 0)
		style = STYLE_GOOD;
	text_table_add(t, STYLE_PLAIN, csight_text(s, "id"));
	text_table_add(t, STYLE_PLAIN, format_time((uint64_t)csight_number(s, "time", 0)));
	snprintf(text, sizeof(text), "%" PRId64, csight_number(s, "pid", 0));
	text_table_add(t, STYLE_PLAIN, text);
	text_table_add(t, STYLE_PLAIN, csight_text(s, "name"));
	text_table_add(t, style, state);
	text_table_add(t, STYLE_PLAIN, format_count((uint64_t)csight_number(s, "threads", 0)));
	text_table_add(t, STYLE_PLAIN, format_size((uint64_t)csight_number(s, "size", 0)));
	text_table_add(t, csight_text(ended, "signal") ? STYLE_BAD : STYLE_PLAIN,
		       csight_text(ended, "text") ? csight_text(ended, "text") : "-");
}

static int list_run(struct client *c)
{
	static const char *const head[] = {
		"ID", "TIME<7", "PID>5", "NAME~", "STATE", "THREADS>9", "SIZE>8", "ENDED~"
	};
	_cleanup_object_ struct csight_object *list = NULL;
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	size_t n;

	if (!client_query(c, csight_list, &list))
		return c->status;
	n = csight_count(list, "snapshots");
	if (n == 0) {
		fprintf(stderr, "no snapshots; take one with 'csight snapshot --pid N'\n");
		return STATUS_OK;
	}
	client_page(c);
	t = text_table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_snapshot_row(t, csight_item(list, "snapshots", i));
	text_table_print(t, stdout);
	for (size_t i = 0; i < n; i++) {
		const struct csight_object *s = csight_item(list, "snapshots", i);
		const char *reason = csight_text(s, "reason");

		if (reason)
			printf("%s: %s\n", esc(csight_text(s, "id")), esc(reason));
	}
	return STATUS_OK;
}

const struct verb cmd_list = {
	.name = "list",
	.arguments = "",
	.summary = "list the snapshots, oldest first",
	.flags = VERB_SOCKET | VERB_JSON | VERB_PAGER,
	.run = list_run,
};
