/* SPDX-License-Identifier: MIT */
/* csight snapshot. */
#include "client/client.h"

enum { OPTION_PID, OPTION_NO_ARM, OPTION_NO_WAIT };

static const struct verb_option options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_NO_ARM] = { "no-arm", 0, NULL, "fail if the process is not armed, instead of arming it" },
	[OPTION_NO_WAIT] = { "no-wait", 0, NULL, "return when the trace is saved, before it is decoded" },
	{ 0 },
};

static int snapshot_run(struct client *c)
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
