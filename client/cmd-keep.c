/* SPDX-License-Identifier: MIT */
/* csight keep. */
#include "client/client.h"
#include "lib/base/escape.h"

enum { OPTION_NO };

static const struct verb_option options[] = {
	[OPTION_NO] = { "no", 0, NULL, "keep it no longer" },
	{ 0 },
};

static int keep_one(struct client *c, const char *name, bool keep)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	const char *id;
	int rc = client_find(c, name, &snapshot);

	if (rc != 0)
		return rc;
	id = csight_text(snapshot, "id");
	rc = csight_keep(c->daemon, id, keep);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (!c->quiet && !c->json)
		printf(keep ? "%s is kept\n" : "%s is not kept any longer\n", esc(id));
	return STATUS_OK;
}

static int keep_run(struct client *c)
{
	const char *value;
	bool keep = true;
	int o, rc;

	while ((o = client_option(c, &value)) >= 0)
		keep = false;
	if (o == CLIENT_STOP)
		return c->status;
	if (!c->argc)
		return client_usage(c, "missing snapshot ID");
	rc = client_connect(c);
	for (int i = 0; rc == 0 && i < c->argc; i++)
		rc = keep_one(c, c->argv[i], keep);
	if (rc == 0 && c->json)
		printf("{}\n");
	return rc;
}

const struct verb cmd_keep = {
	.name = "keep",
	.arguments = "ID...",
	.summary = "keep snapshots from being removed to make room",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = keep_run,
};
