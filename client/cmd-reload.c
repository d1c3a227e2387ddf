/* SPDX-License-Identifier: MIT */
/* csight reload. */
#include "client/client.h"
#include "lib/base/escape.h"

static void print_names(const char *before, const struct csight_object *changes, const char *field)
{
	size_t n = csight_count(changes, field);

	if (!n)
		return;
	fputs(before, stdout);
	for (size_t i = 0; i < n; i++)
		printf("%s%s", i ? ", " : ": ", esc(csight_text(csight_item(changes, field, i), NULL)));
	putchar('\n');
}

static int reload_run(struct client *c)
{
	_cleanup_object_ struct csight_object *changes = NULL;

	if (!client_query(c, csight_reload, &changes) || c->quiet)
		return c->status;
	if (!csight_count(changes, "changed") && !csight_count(changes, "afterRestart"))
		printf("no setting has changed\n");
	print_names("changed", changes, "changed");
	print_names("take effect after a restart", changes, "afterRestart");
	return STATUS_OK;
}

const struct verb cmd_reload = {
	.name = "reload",
	.arguments = "",
	.summary = "make csightd read its configuration again",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.run = reload_run,
};
