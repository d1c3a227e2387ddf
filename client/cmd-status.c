/* SPDX-License-Identifier: MIT */
/* csight status. */
#include <inttypes.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

static void print_status(struct client *c, const struct csight_object *s)
{
	const char *emu = csight_text(s, "emuSocket"), *opencsd = csight_text(s, "opencsd");

	printf("csightd %s at %s, process %" PRId64 " of user %" PRId64 ", up for %s\n", esc(csight_text(s, "version")),
	       esc(csight_socket(c->daemon)), csight_number(s, "pid", 0), csight_number(s, "uid", -1),
	       format_duration(1000000000u * (uint64_t)csight_number(s, "uptime", 0)));
	printf("  capture    %s%s%s\n", esc(csight_text(s, "capture")), emu ? ", emulated programs at " : "",
	       emu ? esc(emu) : "");
	printf("  targets    %s\n", format_count((uint64_t)csight_number(s, "targets", 0)));
	printf("  snapshots  %s, %s in %s\n", format_count((uint64_t)csight_number(s, "snapshots", 0)),
	       format_size((uint64_t)csight_number(s, "spoolBytes", 0)), esc(csight_text(s, "spool")));
	printf("  jobs       %s\n", format_count((uint64_t)csight_number(s, "jobs", 0)));
	if (opencsd)
		printf("  OpenCSD    %s\n", esc(opencsd));
	for (size_t i = 0; i < csight_count(s, "warnings"); i++)
		printf("  %swarning%s    %s\n", format_style(stdout, STYLE_BAD), format_style(stdout, STYLE_PLAIN),
		       esc(csight_text(csight_item(s, "warnings", i), NULL)));
}

static int status_run(struct client *c)
{
	_cleanup_object_ struct csight_object *status = NULL;

	if (client_query(c, csight_status, &status))
		print_status(c, status);
	return c->status;
}

const struct verb cmd_status = {
	.name = "status",
	.arguments = "",
	.summary = "print the status of csightd",
	.flags = VERB_SOCKET | VERB_JSON,
	.run = status_run,
};
