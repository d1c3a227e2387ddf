/* SPDX-License-Identifier: MIT */
/* csight targets. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/text-table.h"
#include "lib/base/escape.h"

static void add_target_row(struct text_table *t, const struct csight_object *target)
{
	const char *state = csight_text(target, "state");
	const struct csight_object *ended = csight_field(target, "ended");
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, csight_number(target, "pid", 0));
	text_table_add(t, STYLE_PLAIN, text);
	text_table_add(t, STYLE_PLAIN, csight_text(target, "name"));
	text_table_add(t,
		       state && strcmp(state, "armed") == 0     ? STYLE_GOOD
		       : state && strcmp(state, "blocked") == 0 ? STYLE_BAD
								: STYLE_PLAIN,
		       state);
	text_table_add(t, STYLE_PLAIN,
		       csight_flag(target, "running") ? "yes"
		       : csight_text(ended, "text")   ? csight_text(ended, "text")
						      : "ended");
	text_table_add(t, STYLE_PLAIN, csight_text(target, "capture"));
	text_table_add(t, STYLE_PLAIN, format_count((uint64_t)csight_number(target, "threadCount", 0)));
	text_table_add(t, STYLE_PLAIN, format_size((uint64_t)csight_number(target, "bytes", 0)));
	snprintf(text, sizeof(text), "%" PRId64, csight_number(target, "uid", -1));
	text_table_add(t, STYLE_PLAIN, text);
}

static int targets_run(struct client *c)
{
	static const char *const head[] = { "PID>",      "NAME~",     "STATE",     "RUNS~",
					    "CAPTURE<8", "THREADS>7", "HISTORY>6", "UID>9" };
	_cleanup_object_ struct csight_object *list = NULL;
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	size_t n;

	if (!client_query(c, csight_targets, &list))
		return c->status;
	n = csight_count(list, "targets");
	if (n == 0) {
		fprintf(stderr,
			"no targets; record a process with 'csight arm --pid N' or 'csight run --emu -- PROGRAM'\n");
		return STATUS_OK;
	}
	client_page(c);
	t = text_table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_target_row(t, csight_item(list, "targets", i));
	text_table_print(t, stdout);
	for (size_t i = 0; i < n; i++) {
		const struct csight_object *target = csight_item(list, "targets", i);

		if (csight_text(target, "trouble"))
			printf("%" PRId64 ": %s\n", csight_number(target, "pid", 0),
			       esc(csight_text(target, "trouble")));
		for (size_t j = 0; j < csight_count(target, "missing"); j++)
			printf("%" PRId64 ": %s\n", csight_number(target, "pid", 0),
			       esc(csight_text(csight_item(target, "missing", j), NULL)));
	}
	return STATUS_OK;
}

const struct verb cmd_targets = {
	.name = "targets",
	.arguments = "",
	.summary = "list the recorded processes",
	.flags = VERB_SOCKET | VERB_JSON | VERB_PAGER,
	.run = targets_run,
};
