/* SPDX-License-Identifier: MIT */
/* csight status. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/format.h"
#include "client/metrics.h"
#include "client/text-table.h"
#include "lib/base/escape.h"

enum { OPTION_METRICS, OPTION_OUTPUT };

static const struct verb_option options[] = {
	[OPTION_METRICS] = { "metrics", 0, NULL, "print the status as OpenMetrics text" },
	[OPTION_OUTPUT] = { "output", 'o', "FILE", "replace FILE with the metrics, for collectors that read files" },
	{ 0 },
};

/* Formats parts per million as a percentage. */
static const char *format_share(uint64_t share)
{
	static char text[2][16];
	static unsigned n;

	n = !n;
	snprintf(text[n], sizeof(text[n]), "%.2f %%", (double)share / 10000);
	return text[n];
}

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
	printf("  overhead   %s", format_share((uint64_t)csight_number(s, "overhead", 0)));
	if (csight_number(s, "overheadMax", 0))
		printf(", at most %s", format_share((uint64_t)csight_number(s, "overheadMax", 0)));
	printf(" of the machine's processor time, to record\n");
	if (opencsd)
		printf("  OpenCSD    %s\n", esc(opencsd));
	for (size_t i = 0; i < csight_count(s, "warnings"); i++)
		printf("  %swarning%s    %s\n", format_style(stdout, STYLE_BAD), format_style(stdout, STYLE_PLAIN),
		       esc(csight_text(csight_item(s, "warnings", i), NULL)));
}

/* Formats an amount of a resource in its unit. */
static const char *format_use(const struct csight_object *use, const char *field)
{
	const char *unit = csight_text(use, "unit");
	uint64_t n = (uint64_t)csight_number(use, field, 0);

	if (csight_number(use, field, -1) < 0)
		return "unlimited";
	if (unit && strcmp(unit, "bytes") == 0)
		return format_size(n);
	return unit ? format_duration(n * 1000000) : format_count(n);
}

static void add_use(struct text_table *t, const char *who, const struct csight_object *use)
{
	int64_t used = csight_number(use, "used", 0), limit = csight_number(use, "limit", INT64_MAX);

	text_table_add(t, STYLE_PLAIN, who);
	text_table_add(t, STYLE_PLAIN, csight_text(use, "resource"));
	text_table_add(t, used >= limit ? STYLE_BAD : STYLE_PLAIN, format_use(use, "used"));
	text_table_add(t, STYLE_PLAIN, format_use(use, "limit"));
	text_table_add(t, STYLE_PLAIN, csight_text(use, "setting"));
}

/* Adds the rows of a list of resources. all: also resources of which nothing is in use. */
static void add_uses(struct text_table *t, const char *who, const struct csight_object *list, bool all)
{
	for (size_t i = 0; i < csight_count(list, NULL); i++)
		if (all || csight_number(csight_item(list, NULL, i), "used", 0) > 0)
			add_use(t, who, csight_item(list, NULL, i));
}

/* Prints what the caller holds of each resource, and for root what all users hold. */
static void print_use(const struct csight_object *s)
{
	static const char *const head[] = { "USER", "RESOURCE", "USED>", "LIMIT>", "SETTING" };
	_cleanup_(text_table_freep) struct text_table *t = text_table_new(head, ELEMENTS(head));
	char who[32];

	if (csight_field(s, "machine")) {
		add_uses(t, "all", csight_field(s, "machine"), true);
		for (size_t i = 0; i < csight_count(s, "users"); i++) {
			const struct csight_object *user = csight_item(s, "users", i);

			snprintf(who, sizeof(who), "%" PRId64, csight_number(user, "uid", -1));
			add_uses(t, who, csight_field(user, "use"), false);
		}
	} else {
		snprintf(who, sizeof(who), "%u", getuid());
		add_uses(t, who, csight_field(s, "use"), true);
	}
	text_table_print(t, stdout);
}

/* Writes the metrics of what csightd replies. Returns an exit status. */
static int write_metrics(struct client *c, FILE *f)
{
	_cleanup_object_ struct csight_object *status = NULL, *targets = NULL, *snapshots = NULL;
	int rc = csight_status(c->daemon, &status);

	if (rc == 0)
		rc = csight_targets(c->daemon, &targets);
	if (rc == 0)
		rc = csight_list(c->daemon, &snapshots);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (metrics_write(f, status, targets, snapshots) == 0)
		return STATUS_OK;
	client_error("cannot print the metrics: out of memory");
	return STATUS_FAILED;
}

static int write_failed(const char *path)
{
	client_error("cannot write %s: %s%s", esc(path), strerror(errno), client_write_advice(errno));
	return STATUS_FAILED;
}

/* Replaces a file at once, so that its readers never see a part of it. */
static int replace_with_metrics(struct client *c, const char *path)
{
	_cleanup_free_ char *part = NULL;
	int fd, status;
	FILE *f;

	if (asprintf(&part, "%s.XXXXXX", path) < 0) {
		part = NULL;
		errno = ENOMEM;
		return write_failed(path);
	}
	fd = mkostemp(part, O_CLOEXEC);
	if (fd < 0)
		return write_failed(path);
	f = fchmod(fd, 0644) == 0 ? fdopen(fd, "w") : NULL;
	if (!f) {
		status = write_failed(path);
		close(fd);
	} else {
		status = write_metrics(c, f);
		if (fclose(f) != 0 && status == STATUS_OK)
			status = write_failed(path);
	}
	if (status == STATUS_OK && rename(part, path) < 0)
		status = write_failed(path);
	if (status != STATUS_OK)
		unlink(part);
	return status;
}

static int show_status(struct client *c)
{
	_cleanup_object_ struct csight_object *status = NULL;
	int rc = csight_status(c->daemon, &status);

	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (c->json) {
		client_print_json_text(csight_json(status));
	} else {
		print_status(c, status);
		print_use(status);
	}
	return STATUS_OK;
}

static int status_run(struct client *c)
{
	const char *value, *path = NULL;
	bool metrics = false;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		metrics = metrics || o == OPTION_METRICS;
		if (o == OPTION_OUTPUT)
			path = value;
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (metrics && c->json)
		return client_usage(c, "--metrics and --json exclude each other");
	if (path && !metrics)
		return client_usage(c, "-o is for --metrics");
	if (c->argc)
		return client_usage(c, "unexpected argument '%s'", esc(c->argv[0]));
	c->status = client_connect(c);
	if (c->status == STATUS_OK && metrics)
		c->status = path ? replace_with_metrics(c, path) : write_metrics(c, stdout);
	else if (c->status == STATUS_OK)
		c->status = show_status(c);
	return c->status;
}

const struct verb cmd_status = {
	.name = "status",
	.arguments = "",
	.summary = "print the status of csightd",
	.options = options,
	.flags = VERB_SOCKET | VERB_JSON,
	.run = status_run,
};
