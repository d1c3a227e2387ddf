/* SPDX-License-Identifier: MIT */
/* csight stream. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "client/format.h"
#include "client/selection.h"
#include "lib/base/escape.h"

enum {
	OPTION_PID,
	OPTION_FOR,
	OPTION_MAX,
	OPTION_RATE,
	OPTION_END,
	OPTION_NO_ARM,
	OPTION_NO_WAIT,
	OPTION_REASON,
	OPTION_LABEL
};

static const struct verb_option options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_FOR] = { "for", 0, "TIME", "end after this time, such as 30s" },
	[OPTION_MAX] = { "max", 0, "SIZE", "end after this much trace, such as 500M" },
	[OPTION_RATE] = { "rate", 0, "SIZE", "record at most this much a second; what is more is lost" },
	[OPTION_END] = { "end", 0, "ID", "end a recording that was left to csightd" },
	[OPTION_NO_ARM] = { "no-arm", 0, NULL, "fail if the process is not armed, instead of arming it" },
	[OPTION_NO_WAIT] = { "no-wait", 0, NULL, "leave the recording to csightd, and return" },
	[OPTION_REASON] = { "reason", 0, "TEXT", CLIENT_REASON_HELP },
	[OPTION_LABEL] = { "label", 0, "NAME=VALUE", CLIENT_LABEL_HELP },
	{ 0 },
};

struct recorder {
	struct client *client;
	struct client_annotation a;
	const char *pid, *end;
	bool ending; /* the end has been requested */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = 1;
}

/* The first signal ends the recording, the second one csight. */
static void catch_signals(void)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	struct sigaction was;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* nohup(1) ignores it. */
	if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
}

/* The connection of the recording waits for its reply: another one ends it. Returns 0 or an exit status. */
static int end_recording(struct client *c, const char *id)
{
	struct csight *other = NULL;
	int rc = csight_open(csight_socket(c->daemon), &other);

	if (rc == 0)
		rc = csight_end_recording(other, id);
	if (rc < 0)
		client_error("%s", other ? esc(csight_error(other)) : strerror(-rc));
	csight_close(other);
	return rc < 0 ? STATUS_FAILED : 0;
}

static void show_progress(const struct recorder *s, const struct csight_object *snapshot)
{
	const struct csight_object *recording = csight_field(snapshot, "recording");
	int64_t lost = csight_number(recording, "lost", 0);

	if (s->client->quiet || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[Krecording %s: %s, %s", esc(csight_text(snapshot, "id")),
		format_duration((uint64_t)csight_number(recording, "duration", 0)),
		format_size((uint64_t)csight_number(recording, "bytes", 0)));
	if (lost)
		fprintf(stderr, ", %s lost", format_size((uint64_t)lost));
	fputs("; Ctrl-C ends it", stderr);
}

static int on_recording(void *userdata, const struct csight_object *snapshot)
{
	struct recorder *s = userdata;
	const char *id = csight_text(snapshot, "id");

	show_progress(s, snapshot);
	if (interrupted && !s->ending && id) {
		s->ending = true;
		end_recording(s->client, id);
	}
	return 0;
}

static int on_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	return client_progress(((struct recorder *)userdata)->client, phase, done, total);
}

static int parse_number(struct client *c, const char *option, const char *value, uint64_t *ret)
{
	bool time = strcmp(option, "for") == 0;

	if ((time ? selection_parse_duration(value, ret) : parse_size(value, ret)) == 0 && *ret)
		return 0;
	return client_usage(c, "--%s: '%s' is not a %s", option, esc(value),
			    time ? "time, such as 30s" : "size, such as 500M");
}

/* Parses the command line. Returns -1 to continue, else the exit status. */
static int stream_parse(struct client *c, struct recorder *s)
{
	struct csight_snapshot_options *to = &s->a.options;
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		switch (o) {
		case OPTION_PID:
			s->pid = value;
			break;
		case OPTION_FOR:
		case OPTION_MAX:
		case OPTION_RATE:
			rc = parse_number(c, options[o].name, value,
					  o == OPTION_FOR   ? &to->max_time
					  : o == OPTION_MAX ? &to->max_bytes
							    : &to->max_rate);
			break;
		case OPTION_END:
			s->end = value;
			break;
		case OPTION_REASON:
			to->reason = value;
			break;
		case OPTION_LABEL:
			rc = client_add_label(c, &s->a, value);
			break;
		default:
			to->flags |= o == OPTION_NO_ARM ? CSIGHT_NO_ARM : CSIGHT_NO_WAIT;
		}
	if (rc != 0)
		return rc;
	return o == CLIENT_STOP ? c->status : -1;
}

static int end_by_id(struct client *c, const char *id)
{
	_cleanup_object_ struct csight_object *found = NULL;
	int rc = client_find(c, id, &found);

	if (rc != 0)
		return rc;
	rc = csight_end_recording(c->daemon, csight_text(found, "id"));
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (c->json)
		printf("{}\n");
	else if (!c->quiet)
		printf("recording %s ends\n", esc(csight_text(found, "id")));
	return STATUS_OK;
}

static int stream_run(struct client *c)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	struct recorder s = { .client = c };
	pid_t pid = 0;
	int rc;

	s.a.options =
	    (struct csight_snapshot_options){ .size = sizeof(s.a.options), .record = true, .recording = on_recording };
	rc = stream_parse(c, &s);
	if (rc >= 0)
		return rc;
	if (s.end && (s.pid || c->argc))
		return client_usage(c, "--end and a process exclude each other");
	if (!s.end && !s.pid && !c->argc)
		return client_usage(c, "missing process: --pid N, or a pattern of its name");
	rc = client_connect(c);
	if (rc == 0 && s.end)
		return end_by_id(c, s.end);
	if (rc == 0)
		rc = client_find_process(c, s.pid, &pid);
	if (rc != 0)
		return rc;
	catch_signals();
	rc = csight_snapshot_with(c->daemon, pid, &s.a.options, on_progress, &s, &snapshot);
	client_progress_end(c);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	return client_report_snapshot(c, stdout, snapshot);
}

const struct verb cmd_stream = {
	.name = "stream",
	.arguments = "--pid N | PATTERN | --end ID",
	.summary = "record a process for as long as it runs",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = stream_run,
};
