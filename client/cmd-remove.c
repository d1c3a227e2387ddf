/* SPDX-License-Identifier: MIT */
/* csight remove. */
#include "client/client.h"
#include "lib/base/escape.h"

static int remove_one(struct client *c, const char *name)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	const char *id;
	int rc;

	rc = client_find(c, name, &snapshot);
	if (rc != 0)
		return rc;
	id = csight_text(snapshot, "id");
	rc = csight_remove(c->daemon, id);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (!c->quiet && !c->json)
		printf("removed %s\n", esc(id));
	return STATUS_OK;
}

static int remove_run(struct client *c)
{
	const char *value;
	int rc;

	if (client_option(c, &value) == CLIENT_STOP)
		return c->status;
	if (!c->argc)
		return client_usage(c, "missing snapshot ID");
	rc = client_connect(c);
	for (int i = 0; rc == 0 && i < c->argc; i++)
		rc = remove_one(c, c->argv[i]);
	if (rc == 0 && c->json)
		printf("{}\n");
	return rc;
}

const struct verb cmd_remove = {
	.name = "remove",
	.arguments = "ID...",
	.summary = "delete snapshots from the spool",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.run = remove_run,
};
