/* SPDX-License-Identifier: MIT */
/* csight pause, csight resume. */
#include "client/client.h"

enum { OPTION_ALL };

static const struct verb_option options[] = {
	[OPTION_ALL] = { "all", 0, NULL, "of all processes and users (required)" },
	{ 0 },
};

static int change(struct client *c, bool pause)
{
	const char *value;
	bool all = false;
	int o, rc;

	while ((o = client_option(c, &value)) >= 0)
		all = true;
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc)
		return client_usage(c, "unexpected argument");
	if (!all)
		return client_usage(c, "--all is required: recording is paused for all processes and users");
	rc = client_connect(c);
	if (rc != 0)
		return rc;
	rc = csight_pause(c->daemon, pause);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (!c->quiet)
		printf("%s\n", pause ? "all recording is paused" : "recording continues");
	return STATUS_OK;
}

static int pause_run(struct client *c)
{
	return change(c, true);
}

static int resume_run(struct client *c)
{
	return change(c, false);
}

const struct verb cmd_pause = {
	.name = "pause",
	.arguments = "--all",
	.summary = "stop the recording of all processes, which keep their history",
	.flags = VERB_SOCKET | VERB_QUIET,
	.options = options,
	.run = pause_run,
};

const struct verb cmd_resume = {
	.name = "resume",
	.arguments = "--all",
	.summary = "continue the recording that was paused",
	.flags = VERB_SOCKET | VERB_QUIET,
	.options = options,
	.run = resume_run,
};
