/* SPDX-License-Identifier: MIT */
/* csight version. */
#include "config.h"

#include "client/client.h"
#include "lib/base/escape.h"

static int version_run(struct client *c)
{
	const char *value;

	if (client_option(c, &value) == CLIENT_STOP)
		return c->status;
	if (c->argc)
		return client_usage(c, "unexpected argument '%s'", esc(c->argv[0]));
	printf(c->json ? "{\"version\":\"%s\"}\n" : "csight %s\n", PACKAGE_VERSION);
	return STATUS_OK;
}

const struct verb cmd_version = {
	.name = "version",
	.arguments = "",
	.summary = "print the version of csight",
	.flags = VERB_JSON,
	.run = version_run,
};
