/* SPDX-License-Identifier: MIT */
/* csight decode: decodes a file or directory of trace with csight-decode, without the daemon. */
#include <string.h>
#include <unistd.h>

#include "client/format.h"
#include "client/local-decode.h"
#include "lib/base/escape.h"
#include "lib/export/decode-formats.h"

enum {
	OPTION_TO,
	OPTION_OUTPUT,
	OPTION_THREAD,
	OPTION_BY_THREAD,
	OPTION_IMAGES,
	OPTION_BUFFER,
	OPTION_ENGINE,
	OPTION_VERIFY,
	OPTION_WORKERS,
	OPTION_NO_INLINES,
	OPTION_REGS
};

enum { WORKERS_MAX = 64 };

static const struct verb_option options[] = {
	[OPTION_TO] = { "to", 't', "FORMAT", DECODE_FORMAT_HELP },
	[OPTION_OUTPUT] = { "output", 'o', "FILE", "output file (default standard output); one for each --to" },
	[OPTION_THREAD] = { "thread", 0, "TID", "only the thread with this ID" },
	[OPTION_BY_THREAD] = { "by-thread", 0, NULL, "order elements by thread, not by trace source" },
	[OPTION_IMAGES] = { "images", 0, "DIR", TRACE_OPTIONS_IMAGES_HELP },
	[OPTION_BUFFER] = { "buffer", 0, "NAME", TRACE_OPTIONS_BUFFER_HELP },
	[OPTION_ENGINE] = { "engine", 0, "NAME", "decoder: auto (default), native, opencsd" },
	[OPTION_VERIFY] = { "verify", 0, NULL, "decode with both engines and report the first difference" },
	[OPTION_WORKERS] = { "workers", 0, "N", "number of decoding threads (default one per CPU)" },
	[OPTION_NO_INLINES] = { "no-inlines", 0, NULL, "no frames for inlined functions" },
	[OPTION_REGS] = { "regs", 0, "FILE", "INPUT is bare trace; FILE describes its trace source" },
	{ 0 },
};

static uint64_t result_number(json_object *o, const char *key)
{
	uint64_t v = 0;

	json_get_u64(o, key, &v);
	return v;
}

static void print_decoded(json_object *result)
{
	json_object *gaps, *seconds;
	double took = 0;

	if (json_get(result, "seconds", json_type_double, &seconds) == 0)
		took = json_object_get_double(seconds);
	fprintf(stderr, "decoded %s of %s: %s instructions in %s ranges, %s exceptions, %.2f s\n",
		format_size(result_number(result, "decoded")), format_size(result_number(result, "bytes")),
		format_count(result_number(result, "instructions")), format_count(result_number(result, "ranges")),
		format_count(result_number(result, "exceptions")), took);
	if (json_get(result, "gaps", json_type_object, &gaps) == 0 && json_object_object_length(gaps)) {
		fputs("  gaps:", stderr);
		json_object_object_foreach (gaps, name, count)
			fprintf(stderr, " %s %s", esc(name), format_count((uint64_t)json_object_get_int64(count)));
		fputc('\n', stderr);
	}
}

static void print_result(json_object *result)
{
	uint64_t renamed;

	/* The input was a store: its functions were looked up again, and nothing was decoded. */
	if (json_get_u64(result, "renamed", &renamed) == 0)
		fprintf(stderr, "%s of %s functions have a new name or source line\n", format_count(renamed),
			format_count(result_number(result, "functions")));
	else
		print_decoded(result);
	local_decode_print_missing(result);
	local_decode_print_warnings(result);
}

/* For --verify: prints and counts the differences between the engines. */
static void report_verified(struct client *c, json_object *result)
{
	uint64_t alike;

	if (json_get_u64(result, "alike", &alike) < 0)
		return;
	if (result_number(result, "differences"))
		c->status = EXIT_FAILURE;
	if (!c->quiet && !c->json)
		fprintf(stderr, "  verified: %s elements are equal, %s\n", format_count(alike),
			result_number(result, "differences") ? "then one differs" : "all that both engines decoded");
}

static void decode_on_result(struct client *c, json_object *result)
{
	report_verified(c, result);
	json_object_object_del(result, "type");
	if (c->json)
		client_print_json(result);
	else if (!c->quiet)
		print_result(result);
}

static int decode_check_outputs(struct client *c, const struct output_files *a)
{
	for (size_t i = 0; i < a->n; i++) {
		const char *format = a->files[i].format, *path = a->files[i].path;
		const struct decode_format *f = decode_format_find(format);

		if (!f || f->basis == DECODE_FORMAT_FROM_INPUT || f->basis == DECODE_FORMAT_FROM_LIVE)
			return client_usage(c, "unknown format '%s'; there are " DECODE_FORMAT_HELP, esc(format));
		if (a->n > 1 && f->basis == DECODE_FORMAT_FROM_PACKETS)
			return client_usage(c, "--to %s cannot be combined with another --to", format);
		if (c->json && !path && f->id != DECODE_FORMAT_NONE)
			return client_usage(c, "--json prints the result of the decode on standard output; write the "
					       "output to a file with -o");
		if (!path && f->content == DECODE_FORMAT_BINARY &&
		    (f->id == DECODE_FORMAT_STORE || isatty(STDOUT_FILENO)))
			return client_usage(c, "%s is a binary format; name an output file with -o", format);
	}
	return 0;
}

static int decode_parse(struct client *c, struct local_decode *d)
{
	const char *value;
	int64_t thread, number;
	int o, rc;

	while ((o = client_option(c, &value)) >= 0)
		switch (o) {
		case OPTION_TO:
			rc = output_files_add_format(c, &d->output_files, value);
			if (rc != 0)
				return rc;
			break;
		case OPTION_OUTPUT:
			rc = output_files_add_path(c, &d->output_files, value);
			if (rc != 0)
				return rc;
			break;
		case OPTION_THREAD:
			if (parse_i64(value, 0, UINT32_MAX, &thread) < 0)
				return client_usage(c, "--thread: '%s' is not a thread ID", esc(value));
			json_add_i64(d->file.options, "thread", thread);
			break;
		case OPTION_BY_THREAD:
			json_add_bool(d->file.options, "by_thread", true);
			break;
		case OPTION_IMAGES:
			rc = local_decode_add_images(d, value);
			if (rc != 0)
				return rc;
			break;
		case OPTION_BUFFER:
			json_add_str(d->file.options, "buffer", value);
			break;
		case OPTION_ENGINE:
			if (strcmp(value, "auto") != 0 && strcmp(value, "native") != 0 && strcmp(value, "opencsd") != 0)
				return client_usage(c, "unknown engine '%s'; there are auto, native and opencsd",
						    esc(value));
			json_add_str(d->file.options, "engine", value);
			break;
		case OPTION_VERIFY:
			json_add_bool(d->file.options, "verify", true);
			break;
		case OPTION_WORKERS:
			if (parse_i64(value, 1, WORKERS_MAX, &number) < 0)
				return client_usage(c, "--workers: '%s' is not a number from 1 to %d", esc(value),
						    WORKERS_MAX);
			json_add_i64(d->file.options, "workers", number);
			break;
		case OPTION_NO_INLINES:
			json_add_bool(d->file.options, "inlines", false);
			break;
		case OPTION_REGS:
			d->file.regs = value;
			output_files_protect(value);
			break;
		}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? "only one input is accepted" : "missing input");
	rc = output_files_finish(c, &d->output_files, decode_formats[0].name);
	if (rc == 0)
		rc = decode_check_outputs(c, &d->output_files);
	if (rc != 0)
		return rc;
	return -1;
}

static int decode_run(struct client *c)
{
	_cleanup_(local_decode_done) struct local_decode d = { LOCAL_DECODE_NONE, .client = c,
							       .on_result = decode_on_result };
	int rc;

	d.file.options = json_object_new_object();
	rc = decode_parse(c, &d);
	if (rc >= 0)
		return rc;
	rc = local_decode_open_input(&d, c->argv[0]);
	if (rc == 0)
		rc = local_decode_open_outputs(&d);
	if (rc == 0)
		rc = local_decode_run(&d);
	return rc == 0 ? c->status : rc;
}

const struct verb cmd_decode = {
	.name = "decode",
	.arguments = "INPUT",
	.summary = "decode a perf.data file, a snapshot directory or bare trace, without the daemon",
	.flags = VERB_JSON | VERB_QUIET,
	.options = options,
	.run = decode_run,
};
