/* SPDX-License-Identifier: MIT */
/* csight tail: prints calls of a process while it runs. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/format.h"
#include "client/local-decode.h"
#include "client/selection.h"
#include "lib/base/escape.h"

enum {
	OPTION_PID,
	OPTION_FOR,
	OPTION_FUNCTION,
	OPTION_LONGER,
	OPTION_DEPTH,
	OPTION_NO_INLINES,
	OPTION_IMAGES,
};

static const struct verb_option options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_FOR] = { "for", 0, "TIME", "end after this time, such as 30s" },
	[OPTION_FUNCTION] = { "function", 'f', "PATTERN", "only calls of the functions of these names" },
	[OPTION_LONGER] = { "longer", 0, "TIME", "only calls of at least this time, such as 5ms" },
	[OPTION_DEPTH] = { "depth", 0, "N", "only this many functions of each stack, from the outermost one on" },
	[OPTION_NO_INLINES] = { "no-inlines", 0, NULL, "no lines for inlined functions" },
	[OPTION_IMAGES] = { "images", 0, "DIR", TRACE_OPTIONS_IMAGES_HELP },
	{ 0 },
};

/* The socket that the trace comes from. */
static volatile sig_atomic_t source = -1;

/* Ends the trace; what has come is decoded. */
static void on_signal(int number)
{
	int saved = errno;

	shutdown(source, SHUT_RDWR);
	errno = saved;
}

/* The first signal ends the trace, the second one csight. */
static void catch_signals(int fd)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	source = fd;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int parse_time(struct client *c, const char *option, const char *value, uint64_t *ret)
{
	if (selection_parse_duration(value, ret) == 0 && *ret)
		return 0;
	return client_usage(c, "--%s: '%s' is not a time, such as 5ms", option, esc(value));
}

/* Parses the command line. Returns -1 to continue, else the exit status. */
static int tail_parse(struct client *c, struct local_decode *d, struct csight_tail_options *to, const char **ret_pid)
{
	const char *value;
	uint64_t longer = 0;
	int64_t depth;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		switch (o) {
		case OPTION_PID:
			*ret_pid = value;
			break;
		case OPTION_FOR:
			rc = parse_time(c, "for", value, &to->max_time);
			break;
		case OPTION_FUNCTION:
			json_add_str(d->file.options, "function", value);
			break;
		case OPTION_LONGER:
			rc = parse_time(c, "longer", value, &longer);
			json_add_u64(d->file.options, "longer", longer);
			break;
		case OPTION_DEPTH:
			if (parse_i64(value, 1, INT32_MAX, &depth) < 0)
				return client_usage(c, "--depth: '%s' is not a number of functions", esc(value));
			json_add_i64(d->file.options, "depth", depth);
			break;
		case OPTION_NO_INLINES:
			json_add_bool(d->file.options, "inlines", false);
			break;
		case OPTION_IMAGES:
			rc = local_decode_add_images(d, value);
			break;
		}
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (!*ret_pid && !c->argc)
		return client_usage(c, "missing process: --pid N, or a pattern of its name");
	json_add_bool(d->file.options, "full_names", c->full_names);
	return -1;
}

static uint64_t result_number(json_object *o, const char *key)
{
	uint64_t v = 0;

	json_get_u64(o, key, &v);
	return v;
}

static void tail_on_result(struct client *c, json_object *result)
{
	uint64_t lost = result_number(result, "lost_bytes");

	if (c->quiet)
		return;
	fprintf(stderr, "%s calls of %s instructions", format_count(result_number(result, "lines")),
		format_count(result_number(result, "instructions")));
	if (result_number(result, "left_out"))
		fprintf(stderr, ", %s not selected", format_count(result_number(result, "left_out")));
	fprintf(stderr, "; %s of trace", format_size(result_number(result, "bytes")));
	if (lost)
		fprintf(stderr, ", %s lost", format_size(lost));
	fputc('\n', stderr);
	local_decode_print_missing(result);
	local_decode_print_warnings(result);
}

/* Has csightd send the trace of a process, which becomes the input. Returns 0 or an exit status. */
static int open_trace(struct client *c, struct local_decode *d, pid_t pid, const struct csight_tail_options *o)
{
	struct stat out;
	int rc = csight_tail(c->daemon, pid, o, &d->file.input);

	if (rc < 0)
		return client_daemon_failed(c, rc);
	catch_signals(d->file.input);
	d->file.name = "the trace";
	d->file.type = DECODER_LIVE;
	/* A reader that closes the pipe ends the decode at once, and not when there is another call. */
	if (fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode))
		d->file.cancel = STDOUT_FILENO;
	return 0;
}

static int tail_run(struct client *c)
{
	_cleanup_(local_decode_done) struct local_decode d = { LOCAL_DECODE_NONE, .client = c,
							       .on_result = tail_on_result };
	struct csight_tail_options trace = { .size = sizeof(trace) };
	const char *pid_text = NULL;
	pid_t pid = 0;
	int rc;

	d.file.options = json_object_new_object();
	rc = tail_parse(c, &d, &trace, &pid_text);
	if (rc >= 0)
		return rc;
	rc = client_connect(c);
	if (rc == 0)
		rc = client_find_process(c, pid_text, &pid);
	if (rc == 0)
		rc = open_trace(c, &d, pid, &trace);
	if (rc != 0)
		return rc;
	d.output_files.files[0].format = c->json ? "live-json" : "live";
	d.output_files.n = 1;
	rc = local_decode_open_outputs(&d);
	return rc == 0 ? local_decode_run(&d) : rc;
}

const struct verb cmd_tail = {
	.name = "tail",
	.arguments = "--pid N | PATTERN",
	.summary = "print the calls of a process while it runs",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET | VERB_NAMES,
	.options = options,
	.run = tail_run,
};
