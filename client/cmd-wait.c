/* SPDX-License-Identifier: MIT */
/* csight wait. */
#include "client/client.h"

static int wait_run(struct client *c)
{
	_cleanup_object_ struct csight_object *found = NULL, *snapshot = NULL;
	const char *value;
	int rc;

	if (client_option(c, &value) == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? "only one snapshot is accepted" : "missing snapshot ID");
	rc = client_connect(c);
	if (rc == 0)
		rc = client_find(c, c->argv[0], &found);
	if (rc != 0)
		return rc;
	rc = csight_wait(c->daemon, csight_text(found, "id"), client_progress, c, &snapshot);
	client_progress_end(c);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	return client_report_snapshot(c, stdout, snapshot);
}

const struct verb cmd_wait = {
	.name = "wait",
	.arguments = "ID",
	.summary = "wait until a snapshot is decoded",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.run = wait_run,
};
