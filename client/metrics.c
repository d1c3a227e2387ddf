/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/metrics.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

/* A family begins with its type, unit and help. Counters add _total to the name in their samples. */
static void put_family(FILE *f, const char *name, const char *type, const char *unit, const char *help)
{
	fprintf(f, "# TYPE csightd_%s %s\n", name, type);
	if (unit)
		fprintf(f, "# UNIT csightd_%s %s\n", name, unit);
	fprintf(f, "# HELP csightd_%s %s\n", name, help);
}

/* A label's value; the text comes from outside. Only these three characters are escaped in OpenMetrics. */
static void put_label(FILE *f, const char *name, const char *value)
{
	fprintf(f, "%s=\"", name);
	for (; *value; value++)
		if (*value == '\n')
			fputs("\\n", f);
		else if (*value == '"' || *value == '\\')
			fprintf(f, "\\%c", *value);
		else
			fputc((unsigned char)*value < ' ' || *value == 127 ? '?' : *value, f);
	fputc('"', f);
}

static void put_number(FILE *f, const char *name, const char *label, const char *value, int64_t n)
{
	fprintf(f, "csightd_%s", name);
	if (label) {
		fputc('{', f);
		put_label(f, label, value);
		fputc('}', f);
	}
	fprintf(f, " %" PRId64 "\n", n);
}

/* Writes a time in ns as seconds, without rounding. */
static void put_seconds(FILE *f, int64_t ns)
{
	fprintf(f, " %" PRId64 ".%09" PRId64 "\n", ns / 1000000000, ns % 1000000000);
}

static void put_gauge(FILE *f, const char *name, const char *unit, const char *help, int64_t n)
{
	put_family(f, name, "gauge", unit, help);
	put_number(f, name, NULL, NULL, n);
}

/* Writes how many members of a list are in each state. */
static void put_states(FILE *f, const char *name, const struct csight_object *list, const char *const *states)
{
	for (; *states; states++) {
		size_t n = 0;

		for (size_t i = 0; i < csight_count(list, NULL); i++) {
			const char *state = csight_text(csight_item(list, NULL, i), "state");

			n += state && strcmp(state, *states) == 0;
		}
		put_number(f, name, "state", *states, (int64_t)n);
	}
}

static void put_daemon(FILE *f, const struct csight_object *s)
{
	const char *version = csight_text(s, "version"), *capture = csight_text(s, "capture");

	put_family(f, "build_info", "gauge", NULL, "The running csightd.");
	fputs("csightd_build_info{", f);
	put_label(f, "version", version ? version : "");
	fputc(',', f);
	put_label(f, "capture", capture ? capture : "");
	fputs("} 1\n", f);
	put_gauge(f, "uptime_seconds", "seconds", "Time since csightd started.", csight_number(s, "uptime", 0));
	put_family(f, "overhead_ratio", "gauge", "ratio",
		   "Processor time of recording over 5 s, of that of all processors.");
	fprintf(f, "csightd_overhead_ratio %.6f\n", (double)csight_number(s, "overhead", 0) / 1000000);
	put_gauge(f, "warnings", NULL, "Warnings of csight status.", (int64_t)csight_count(s, "warnings"));
}

/* A program's name, with the shortest span of the processes that have it. */
struct named_span {
	const char *name;
	int64_t ns;
	bool estimated;
};

static int compare_spans(const void *a, const void *b)
{
	const struct named_span *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* Writes a series for each program name, since processes are too many and too short-lived for series of their own. */
static int put_spans(FILE *f, const struct csight_object *targets)
{
	size_t n = csight_count(targets, NULL), n_spans = 0;
	_cleanup_free_ struct named_span *spans = calloc(n + 1, sizeof(*spans));

	if (!spans)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct csight_object *t = csight_item(targets, NULL, i);
		const char *name = csight_text(t, "name");
		int64_t ns = csight_number(t, "span", -1);

		if (name && ns >= 0)
			spans[n_spans++] = (struct named_span){ name, ns, csight_flag(t, "spanEstimated") };
	}
	qsort(spans, n_spans, sizeof(*spans), compare_spans);
	put_family(f, "ring_span_seconds", "gauge", "seconds",
		   "For how long the rings of a program reach back, least of its processes; estimated of rings that "
		   "have overwritten trace.");
	for (size_t i = 0; i < n_spans; i++) {
		if (i && strcmp(spans[i].name, spans[i - 1].name) == 0)
			continue;
		fputs("csightd_ring_span_seconds{", f);
		put_label(f, "name", spans[i].name);
		fprintf(f, ",estimated=\"%s\"}", spans[i].estimated ? "true" : "false");
		put_seconds(f, spans[i].ns);
	}
	return 0;
}

static int put_targets(FILE *f, const struct csight_object *targets)
{
	static const char *const states[] = { "arming",   "armed",    "blocked", "frozen",
					      "draining", "disarmed", "gone",    NULL };
	int64_t bytes = 0;

	put_family(f, "targets", "gauge", NULL, "Processes with rings, by the state of these.");
	put_states(f, "targets", targets, states);
	for (size_t i = 0; i < csight_count(targets, NULL); i++)
		bytes += csight_number(csight_item(targets, NULL, i), "bytes", 0);
	put_gauge(f, "ring_bytes", "bytes", "Trace in all rings.", bytes);
	return put_spans(f, targets);
}

static void put_snapshots(FILE *f, const struct csight_object *s, const struct csight_object *snapshots)
{
	static const char *const states[] = { "copying", "queued", "decoding", "ready", "raw", NULL };

	put_family(f, "snapshots", "gauge", NULL, "Snapshots in the spool, by state.");
	put_states(f, "snapshots", snapshots, states);
	put_gauge(f, "spool_bytes", "bytes", "Size of the snapshots in the spool.", csight_number(s, "spoolBytes", 0));
	put_gauge(f, "jobs", NULL, "Decodes that wait or run.", csight_number(s, "jobs", 0));
}

/* Writes what users hold of each resource: all users, or the caller alone if the reply of csightd has no others. */
static void put_uses(FILE *f, const struct csight_object *s)
{
	static const struct {
		const char *name, *field, *help;
	} families[] = {
		{ "resource_used", "used", "What is held of each resource, in the unit of its label." },
		{ "resource_limit", "limit", "The limits of the resources; one without a limit is absent." },
	};
	const struct csight_object *uses = csight_field(s, csight_field(s, "machine") ? "machine" : "use");

	for (size_t k = 0; k < ELEMENTS(families); k++) {
		put_family(f, families[k].name, "gauge", NULL, families[k].help);
		for (size_t i = 0; i < csight_count(uses, NULL); i++) {
			const struct csight_object *use = csight_item(uses, NULL, i);
			const char *resource = csight_text(use, "resource"), *unit = csight_text(use, "unit");
			int64_t n = csight_number(use, families[k].field, -1);

			if (!resource || n < 0)
				continue;
			fprintf(f, "csightd_%s{", families[k].name);
			put_label(f, "resource", resource);
			fputc(',', f);
			put_label(f, "unit", unit ? unit : "number");
			fprintf(f, "} %" PRId64 "\n", n);
		}
	}
}

static void put_waits(FILE *f, const char *name, const char *help, const struct csight_object *waits)
{
	int64_t n = 0;

	put_family(f, name, "histogram", "seconds", help);
	for (size_t i = 0; i < csight_count(waits, "buckets"); i++) {
		const struct csight_object *bucket = csight_item(waits, "buckets", i);
		int64_t ms = csight_number(bucket, "atMost", -1);

		n += csight_number(bucket, "count", 0);
		if (ms < 0)
			fprintf(f, "csightd_%s_bucket{le=\"+Inf\"} %" PRId64 "\n", name, n);
		else
			fprintf(f, "csightd_%s_bucket{le=\"%g%s\"} %" PRId64 "\n", name, (double)ms / 1000,
				ms % 1000 ? "" : ".0", n);
	}
	fprintf(f, "csightd_%s_count %" PRId64 "\ncsightd_%s_sum", name, n, name);
	put_seconds(f, csight_number(waits, "sum", 0));
}

static void put_counters(FILE *f, const struct csight_object *c)
{
	put_family(f, "snapshots_taken", "counter", NULL, "Snapshots that were written to the spool.");
	put_number(f, "snapshots_taken_total", NULL, NULL, csight_number(c, "taken", 0));
	put_family(f, "snapshots_failed", "counter", NULL, "Snapshots that could not be made.");
	put_number(f, "snapshots_failed_total", NULL, NULL, csight_number(c, "failed", 0));
	put_family(f, "decodes", "counter", NULL, "Decodes of snapshots that ended, by what became of the snapshot.");
	put_number(f, "decodes_total", "state", "ready", csight_number(c, "ready", 0));
	put_number(f, "decodes_total", "state", "raw", csight_number(c, "raw", 0));
	put_family(f, "refusals", "counter", NULL,
		   "Refused calls: for the lack of a right, or by the limit of a resource.");
	for (size_t i = 0; i < csight_count(c, "refused"); i++) {
		const struct csight_object *r = csight_item(c, "refused", i);
		const char *cause = csight_text(r, "cause");

		put_number(f, "refusals_total", "cause", cause ? cause : "", csight_number(r, "count", 0));
	}
	put_waits(f, "copy_wait_seconds", "Time from requests for a snapshot to the copy of its rings.",
		  csight_field(c, "copyWait"));
	put_waits(f, "decode_wait_seconds", "Time for which snapshots waited for their decode.",
		  csight_field(c, "decodeWait"));
	put_family(f, "unrecorded_seconds", "counter", "seconds", "Time without tracing while rings were copied.");
	fputs("csightd_unrecorded_seconds_total", f);
	put_seconds(f, csight_number(c, "blind", 0));
}

int metrics_write(FILE *f, const struct csight_object *status, const struct csight_object *targets,
		  const struct csight_object *snapshots)
{
	int rc;

	put_daemon(f, status);
	rc = put_targets(f, csight_field(targets, "targets"));
	if (rc < 0)
		return rc;
	put_snapshots(f, status, csight_field(snapshots, "snapshots"));
	put_uses(f, status);
	if (csight_field(status, "counters"))
		put_counters(f, csight_field(status, "counters"));
	fputs("# EOF\n", f);
	return 0;
}
