/* csight snapshot, and what is said of a snapshot that was taken. */
#include <inttypes.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

enum { OPTION_PID, OPTION_NO_ARM, OPTION_NO_WAIT };

static const struct verb_option options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "the process" },
	[OPTION_NO_ARM] = { "no-arm", 0, NULL, "refuse a process that is not armed, instead of arming it" },
	[OPTION_NO_WAIT] = { "no-wait", 0, NULL, "return when the copy is safe, before it is decoded" },
	{ 0 },
};

static void tell_decode(FILE *to, const struct csight_object *decode)
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

void client_tell_snapshot(FILE *to, const struct csight_object *snapshot)
{
	const struct csight_object *decode = csight_field(snapshot, "decode");
	const char *state = csight_text(snapshot, "state");
	bool raw = state && strcmp(state, "raw") == 0;

	fprintf(to, "snapshot %s of %s (process %" PRId64 "): %s%s%s, %s, %s, blind for %s\n",
		esc(csight_text(snapshot, "id")), esc(csight_text(snapshot, "name")), csight_number(snapshot, "pid", 0),
		format_mark(to, raw ? MARK_BAD : MARK_GOOD), esc(state), format_mark(to, MARK_NONE),
		format_plural((uint64_t)csight_number(snapshot, "threads", 0), "thread"),
		format_size((uint64_t)csight_number(snapshot, "size", 0)),
		format_duration((uint64_t)csight_number(snapshot, "blind", 0)));
	if (decode)
		tell_decode(to, decode);
	for (size_t i = 0; i < csight_count(snapshot, "missing"); i++)
		fprintf(to, "  missing: %s\n", esc(csight_text(csight_item(snapshot, "missing", i), NULL)));
	if (raw)
		fprintf(to, "  kept undecoded: %s\n", esc(csight_text(snapshot, "reason")));
}

int client_took_snapshot(struct client *c, FILE *to, const struct csight_object *snapshot)
{
	const char *id = csight_text(snapshot, "id"), *state = csight_text(snapshot, "state");

	if (c->json) {
		fprintf(to, "{\"snapshot\":%s}\n", csight_json(snapshot));
	} else if (c->quiet) {
		fprintf(to, "%s\n", esc(id));
	} else {
		client_tell_snapshot(to, snapshot);
		if (state && strcmp(state, "ready") == 0)
			fprintf(to, "  to see it: csight show %s; csight export -o FILE.pftrace %s\n", esc(id),
				esc(id));
	}
	return state && strcmp(state, "raw") == 0 ? STATUS_FAILED : STATUS_OK;
}

static int run(struct client *c)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	const char *value, *pid_text = NULL;
	unsigned flags = 0;
	pid_t pid;
	int o, rc;

	while ((o = client_option(c, &value)) >= 0) {
		if (o == OPTION_PID)
			pid_text = value;
		else
			flags |= o == OPTION_NO_ARM ? CSIGHT_NO_ARM : CSIGHT_NO_WAIT;
	}
	if (o == CLIENT_STOP)
		return c->status;
	rc = client_pid(c, pid_text, &pid);
	if (rc != 0)
		return rc;
	rc = client_connect(c);
	if (rc != 0)
		return rc;
	rc = csight_snapshot(c->daemon, pid, flags, client_progress, c, &snapshot);
	client_progress_end(c);
	if (rc < 0)
		return client_failed(c, rc);
	return client_took_snapshot(c, stdout, snapshot);
}

const struct verb cmd_snapshot = {
	.name = "snapshot",
	.arguments = "--pid N",
	.summary = "keep what a process did just before now",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = run,
};
