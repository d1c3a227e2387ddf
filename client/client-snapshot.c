/* SPDX-License-Identifier: MIT */
/* Prints the daemon's description of a snapshot. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

static void print_decode_summary(FILE *to, const struct csight_object *decode)
{
	static const char *const gaps[] = { "no-image",   "unknown-address", "overflow", "discard",
					    "bad-packet", "bad-image",       "lost",     "cut",
					    "crash",      "unsupported" };
	const struct csight_object *counts = csight_field(decode, "gaps");
	int64_t bytes = csight_number(decode, "bytes", 0), decoded = csight_number(decode, "decoded", 0);

	fprintf(to, "  decoded %.1f %% of %s: %s, %s\n", bytes > 0 ? 100.0 * (double)decoded / (double)bytes : 100.0,
		format_size((uint64_t)bytes),
		format_plural((uint64_t)csight_number(decode, "instructions", 0), "instruction"),
		format_plural((uint64_t)csight_number(decode, "calls", 0), "call"));
	for (size_t i = 0; i < ELEMENTS(gaps); i++)
		if (csight_number(counts, gaps[i], 0) > 0)
			fprintf(to, "  gaps: %s %s\n", gaps[i],
				format_count((uint64_t)csight_number(counts, gaps[i], 0)));
}

int client_add_label(struct client *c, struct client_annotation *a, const char *value)
{
	const char *equal = strchr(value, '=');

	if (!equal || equal == value)
		return client_usage(c, "--label: '%s' is not NAME=VALUE", esc(value));
	if (a->n == CLIENT_LABELS_MAX)
		return client_usage(c, "at most %d labels are accepted, with that of a group", CLIENT_LABELS_MAX);
	a->labels[a->n++] = value;
	a->options.labels = a->labels;
	return STATUS_OK;
}

static void print_annotation(FILE *to, const struct csight_object *snapshot)
{
	if (csight_text(snapshot, "why"))
		fprintf(to, "  reason: %s\n", esc(csight_text(snapshot, "why")));
	for (size_t i = 0; i < csight_count(snapshot, "labels"); i++) {
		const struct csight_object *label = csight_item(snapshot, "labels", i);

		fprintf(to, "  label: %s=%s\n", esc(csight_text(label, "name")), esc(csight_text(label, "value")));
	}
}

/* Prints which hit requested the snapshot. */
static void print_trigger(FILE *to, const struct csight_object *t)
{
	fprintf(to, "  trigger %" PRId64 ": %s", csight_number(t, "id", 0), esc(csight_text(t, "condition")));
	if (csight_text(t, "conditions"))
		fprintf(to, ", of: %s", esc(csight_text(t, "conditions")));
	if (csight_number(t, "value", -1) >= 0)
		fprintf(to, ", took %s", format_duration((uint64_t)csight_number(t, "value", 0)));
	if (csight_number(t, "tid", 0))
		fprintf(to, ", in thread %" PRId64, csight_number(t, "tid", 0));
	fputc('\n', to);
}

/* Prints the duration and size of a recording, and why it ended. */
static void print_recording(FILE *to, const struct csight_object *r)
{
	static const char *const ends[][2] = {
		{ "time", "the time is over" },
		{ "bytes", "it has as much trace as was wanted" },
		{ "request", "it was ended" },
		{ "target", "the process ended" },
		{ "disarmed", "the process was disarmed" },
		{ "spool", "there is no room in the spool" },
		{ "daemon", "csightd ended" },
		{ "user", "the process changed its user" },
		{ "parts", "it has too many threads or parts" },
	};
	const char *end = csight_text(r, "ended"), *text = end ? end : "it goes on";

	for (size_t i = 0; end && i < ELEMENTS(ends); i++)
		if (strcmp(ends[i][0], end) == 0)
			text = ends[i][1];
	fprintf(to, "  recorded for %s: %s of trace; %s\n", format_duration((uint64_t)csight_number(r, "duration", 0)),
		format_size((uint64_t)csight_number(r, "bytes", 0)), esc(text));
	if (csight_text(r, "reason"))
		fprintf(to, "  %s\n", esc(csight_text(r, "reason")));
}

void client_print_snapshot(FILE *to, const struct csight_object *snapshot)
{
	const struct csight_object *trigger = csight_field(snapshot, "trigger");
	const struct csight_object *decode = csight_field(snapshot, "decode"), *ended = csight_field(snapshot, "ended");
	const char *state = csight_text(snapshot, "state");
	bool raw = state && strcmp(state, "raw") == 0;

	fprintf(to, "snapshot %s of %s (process %" PRId64 "): %s%s%s\n  %s, %s, untraced for %s\n",
		esc(csight_text(snapshot, "id")), esc(csight_text(snapshot, "name")), csight_number(snapshot, "pid", 0),
		format_style(to, raw ? STYLE_BAD : STYLE_GOOD), esc(state), format_style(to, STYLE_PLAIN),
		format_plural((uint64_t)csight_number(snapshot, "threads", 0), "thread"),
		format_size((uint64_t)csight_number(snapshot, "size", 0)),
		format_duration((uint64_t)csight_number(snapshot, "blind", 0)));
	if (csight_number(snapshot, "last", 0))
		fprintf(to, "  of the last %s\n", format_duration((uint64_t)csight_number(snapshot, "last", 0)));
	if (csight_number(snapshot, "unrecorded", 0))
		fprintf(to, "  it ran for %s before it was armed: that is not recorded\n",
			format_duration((uint64_t)csight_number(snapshot, "unrecorded", 0)));
	if (csight_field(snapshot, "recording"))
		print_recording(to, csight_field(snapshot, "recording"));
	print_annotation(to, snapshot);
	if (csight_text(ended, "text"))
		fprintf(to, "  %s%s%s\n", format_style(to, csight_text(ended, "signal") ? STYLE_BAD : STYLE_PLAIN),
			esc(csight_text(ended, "text")), format_style(to, STYLE_PLAIN));
	if (csight_text(trigger, "condition"))
		print_trigger(to, trigger);
	if (decode)
		print_decode_summary(to, decode);
	for (size_t i = 0; i < csight_count(snapshot, "missing"); i++)
		fprintf(to, "  missing: %s\n", esc(csight_text(csight_item(snapshot, "missing", i), NULL)));
	if (raw)
		fprintf(to, "  kept undecoded: %s\n", esc(csight_text(snapshot, "reason")));
}

int client_report_snapshot(struct client *c, FILE *to, const struct csight_object *snapshot)
{
	const char *id = csight_text(snapshot, "id"), *state = csight_text(snapshot, "state");

	if (c->json) {
		client_print_json_member(to, "snapshot", csight_json(snapshot));
	} else if (c->quiet) {
		fprintf(to, "%s\n", esc(id));
	} else {
		client_print_snapshot(to, snapshot);
		if (state && strcmp(state, "ready") == 0)
			fprintf(to, "  view it with: csight show %s, or csight export -o FILE.pftrace %s\n", esc(id),
				esc(id));
	}
	return state && strcmp(state, "raw") == 0 ? STATUS_FAILED : STATUS_OK;
}
