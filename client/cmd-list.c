/* csight list. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

static void add_snapshot(struct table *t, const struct csight_object *s)
{
	const char *state = csight_text(s, "state");
	enum format_mark mark = MARK_NONE;
	char text[32];

	if (state && strcmp(state, "raw") == 0)
		mark = MARK_BAD;
	else if (state && strcmp(state, "ready") == 0)
		mark = MARK_GOOD;
	table_cell(t, MARK_NONE, csight_text(s, "id"));
	table_cell(t, MARK_NONE, format_time((uint64_t)csight_number(s, "time", 0)));
	snprintf(text, sizeof(text), "%" PRId64, csight_number(s, "pid", 0));
	table_cell(t, MARK_NONE, text);
	table_cell(t, MARK_NONE, csight_text(s, "name"));
	table_cell(t, mark, state);
	table_cell(t, MARK_NONE, format_count((uint64_t)csight_number(s, "threads", 0)));
	table_cell(t, MARK_NONE, format_size((uint64_t)csight_number(s, "size", 0)));
}

static int run(struct client *c)
{
	static const char *const head[] = { "ID", "TIME", "PID>", "NAME", "STATE", "THREADS>", "SIZE>" };
	_cleanup_object_ struct csight_object *list = NULL;
	_cleanup_(table_freep) struct table *t = NULL;
	size_t n;

	if (!client_answer(c, csight_list, &list))
		return c->status;
	n = csight_count(list, "snapshots");
	if (n == 0) {
		fprintf(stderr, "no snapshots; 'csight snapshot --pid N' takes one\n");
		return STATUS_OK;
	}
	t = table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_snapshot(t, csight_item(list, "snapshots", i));
	table_print(t, stdout);
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
	.flags = VERB_SOCKET | VERB_JSON,
	.run = run,
};
