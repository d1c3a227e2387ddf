/* SPDX-License-Identifier: MIT */
/* csight targets. */
#include <errno.h>
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
	int64_t standing = csight_number(target, "standing", 0);
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
	snprintf(text, sizeof(text), "%" PRId64, standing);
	text_table_add(t, STYLE_PLAIN, standing ? text : "");
}

static void add_standing_row(struct text_table *table, const struct csight_object *s)
{
	const char *section = csight_text(s, "section");
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, csight_number(s, "id", 0));
	text_table_add(table, STYLE_PLAIN, text);
	text_table_add(table, STYLE_PLAIN, format_count((uint64_t)csight_number(s, "armed", 0)));
	text_table_add(table, csight_number(s, "failed", 0) ? STYLE_BAD : STYLE_PLAIN,
		       format_count((uint64_t)csight_number(s, "failed", 0)));
	snprintf(text, sizeof(text), "%" PRId64, csight_number(s, "uid", -1));
	text_table_add(table, STYLE_PLAIN, text);
	text_table_add(table, STYLE_PLAIN, section ? section : "-");
	text_table_add(table, STYLE_PLAIN, csight_text(s, "text"));
}

static void print_standing(const struct csight_object *list, bool apart)
{
	static const char *const head[] = { "STANDING>", "ARMED>5", "FAILED>6", "UID>9", "SECTION~", "RULE~" };
	_cleanup_(text_table_freep) struct text_table *t = text_table_new(head, ELEMENTS(head));
	size_t n = csight_count(list, "standing");

	for (size_t i = 0; i < n; i++)
		add_standing_row(t, csight_item(list, "standing", i));
	if (apart)
		printf("\n");
	text_table_print(t, stdout);
	for (size_t i = 0; i < n; i++) {
		const struct csight_object *s = csight_item(list, "standing", i);

		if (csight_text(s, "trouble"))
			printf("standing target %" PRId64 ": %s\n", csight_number(s, "id", 0),
			       esc(csight_text(s, "trouble")));
	}
}

/* Prints both lists as one object; standing: NULL for an older csightd. */
static int print_json(const struct csight_object *targets, const struct csight_object *standing)
{
	_cleanup_json_ json_object *a = NULL, *b = NULL;
	const char *first = csight_json(targets), *second = standing ? csight_json(standing) : "{}";
	json_object *list = NULL;

	if (json_parse(first, strlen(first), &a) < 0 || json_parse(second, strlen(second), &b) < 0) {
		client_error("out of memory");
		return STATUS_FAILED;
	}
	if (json_get(b, "standing", json_type_array, &list) == 0)
		json_add(a, "standing", json_object_get(list));
	client_print_json(a);
	return STATUS_OK;
}

/* Requests both lists. Returns true if they are to be printed; else the exit status is in c->status. */
static bool query(struct client *c, struct csight_object **ret_targets, struct csight_object **ret_standing)
{
	int rc;

	if (!client_begin_query(c))
		return false;
	rc = csight_targets(c->daemon, ret_targets);
	if (rc == 0)
		rc = csight_standing(c->daemon, ret_standing);
	/* An older csightd has no standing targets. */
	if (rc == -ENOSYS)
		rc = 0;
	c->status = rc < 0    ? client_daemon_failed(c, rc)
		    : c->json ? print_json(*ret_targets, *ret_standing)
			      : STATUS_OK;
	return rc == 0 && !c->json;
}

static int targets_run(struct client *c)
{
	static const char *const head[] = { "PID>",      "NAME~",     "STATE", "RUNS~",      "CAPTURE<8",
					    "THREADS>7", "HISTORY>6", "UID>9", "STANDING>8?" };
	_cleanup_object_ struct csight_object *list = NULL, *standing = NULL;
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	size_t n;

	if (!query(c, &list, &standing))
		return c->status;
	n = csight_count(list, "targets");
	if (n == 0 && csight_count(standing, "standing") == 0) {
		fprintf(stderr,
			"no targets; record a process with 'csight arm --pid N' or 'csight run --emu -- PROGRAM'\n");
		return STATUS_OK;
	}
	client_page(c);
	t = text_table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_target_row(t, csight_item(list, "targets", i));
	if (n)
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
	if (csight_count(standing, "standing"))
		print_standing(standing, n > 0);
	return STATUS_OK;
}

const struct verb cmd_targets = {
	.name = "targets",
	.arguments = "",
	.summary = "list the recorded processes",
	.flags = VERB_SOCKET | VERB_JSON | VERB_PAGER,
	.run = targets_run,
};
