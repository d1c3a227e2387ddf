/* SPDX-License-Identifier: MIT */
/* csight snapshot. */
#include "client/client.h"
#include "lib/base/duration.h"
#include "lib/base/escape.h"

enum { OPTION_PID, OPTION_NO_ARM, OPTION_NO_WAIT, OPTION_LAST, OPTION_REASON, OPTION_LABEL };

static const struct verb_option options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_NO_ARM] = { "no-arm", 0, NULL, "fail if the process is not armed, instead of arming it" },
	[OPTION_NO_WAIT] = { "no-wait", 0, NULL, "return when the trace is saved, before it is decoded" },
	[OPTION_LAST] = { "last", 0, "TIME", "only the trace of this time before it, such as 10ms (default all)" },
	[OPTION_REASON] = { "reason", 0, "TEXT", CLIENT_REASON_HELP },
	[OPTION_LABEL] = { "label", 0, "NAME=VALUE", CLIENT_LABEL_HELP },
	{ 0 },
};

/* Parses the options. Returns -1, or the exit status. */
static int snapshot_parse(struct client *c, struct client_annotation *ret, pid_t *ret_pid)
{
	const char *value, *pid = NULL;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		switch (o) {
		case OPTION_PID:
			pid = value;
			break;
		case OPTION_LAST:
			if (duration_parse(value, &ret->options.last) < 0 || !ret->options.last)
				return client_usage(c, "--last: '%s' is not a time, such as 10ms", esc(value));
			break;
		case OPTION_REASON:
			ret->options.reason = value;
			break;
		case OPTION_LABEL:
			rc = client_add_label(c, ret, value);
			break;
		default:
			ret->options.flags |= o == OPTION_NO_ARM ? CSIGHT_NO_ARM : CSIGHT_NO_WAIT;
		}
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	rc = client_pid(c, pid, ret_pid);
	return rc != 0 ? rc : -1;
}

static int snapshot_run(struct client *c)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	struct client_annotation a = { .options.size = sizeof(a.options) };
	pid_t pid;
	int rc = snapshot_parse(c, &a, &pid);

	if (rc >= 0)
		return rc;
	rc = client_connect(c);
	if (rc != 0)
		return rc;
	rc = csight_snapshot_with(c->daemon, pid, &a.options, client_progress, c, &snapshot);
	client_progress_end(c);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	return client_report_snapshot(c, stdout, snapshot);
}

const struct verb cmd_snapshot = {
	.name = "snapshot",
	.arguments = "--pid N",
	.summary = "save the recent history of a process",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = snapshot_run,
};
