/* csight targets. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

static void add_target(struct table *t, const struct csight_object *target)
{
	const char *state = csight_text(target, "state");
	size_t threads = csight_count(target, "threads");
	uint64_t bytes = 0;
	char text[32];

	for (size_t i = 0; i < threads; i++)
		bytes += (uint64_t)csight_number(csight_item(target, "threads", i), "bytes", 0);
	snprintf(text, sizeof(text), "%" PRId64, csight_number(target, "pid", 0));
	table_cell(t, MARK_NONE, text);
	table_cell(t, MARK_NONE, csight_text(target, "name"));
	table_cell(t,
		   state && strcmp(state, "armed") == 0     ? MARK_GOOD
		   : state && strcmp(state, "blocked") == 0 ? MARK_BAD
							    : MARK_NONE,
		   state);
	table_cell(t, MARK_NONE, csight_flag(target, "running") ? "yes" : "ended");
	table_cell(t, MARK_NONE, csight_text(target, "capture"));
	table_cell(t, MARK_NONE, format_count(threads));
	table_cell(t, MARK_NONE, format_size(bytes));
	snprintf(text, sizeof(text), "%" PRId64, csight_number(target, "uid", -1));
	table_cell(t, MARK_NONE, text);
}

static int run(struct client *c)
{
	static const char *const head[] = {
		"PID>", "NAME", "STATE", "RUNS", "CAPTURE", "THREADS>", "HISTORY>", "UID>"
	};
	_cleanup_object_ struct csight_object *list = NULL;
	_cleanup_(table_freep) struct table *t = NULL;
	size_t n;

	if (!client_answer(c, csight_targets, &list))
		return c->status;
	n = csight_count(list, "targets");
	if (n == 0) {
		fprintf(stderr, "no targets; 'csight arm --pid N' or 'csight run --emu -- PROGRAM' makes one\n");
		return STATUS_OK;
	}
	t = table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_target(t, csight_item(list, "targets", i));
	table_print(t, stdout);
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
	.summary = "list the processes that are traced",
	.flags = VERB_SOCKET | VERB_JSON,
	.run = run,
};
