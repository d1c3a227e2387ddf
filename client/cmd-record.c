/* SPDX-License-Identifier: MIT */
/* csight record: arms a process, waits for Ctrl-C or the end of the process, and takes a snapshot. csight wait-armed.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

enum { OPTION_PID, OPTION_REASON, OPTION_LABEL };
enum { WAIT_PID, WAIT_TIMEOUT };
enum { PAUSE_MS = 50 };

static const struct verb_option record_options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_REASON] = { "reason", 0, "TEXT", CLIENT_REASON_HELP },
	[OPTION_LABEL] = { "label", 0, "NAME=VALUE", CLIENT_LABEL_HELP },
	{ 0 },
};

static const struct verb_option wait_options[] = {
	[WAIT_PID] = { "pid", 'p', "N", "process ID" },
	[WAIT_TIMEOUT] = { "timeout", 0, "SECONDS", "fail after this time (default: never)" },
	{ 0 },
};

/* Blocks the signals that end the recording. Returns a descriptor of them, or a negative errno. */
static int open_signals(sigset_t *set)
{
	int fd;

	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigprocmask(SIG_BLOCK, set, NULL);
	fd = signalfd(-1, set, SFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Waits for a signal, or for the end of the process. A second signal ends csight. Returns 0 or negative errno. */
static int wait_for_end(int pidfd, int signals, const sigset_t *set)
{
	struct pollfd p[2] = { { .fd = signals, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };
	struct signalfd_siginfo got;
	int rc;

	do
		rc = poll(p, ELEMENTS(p), -1) < 0 ? -errno : 0;
	while (rc == -EINTR);
	if (rc == 0 && p[0].revents)
		rc = read(signals, &got, sizeof(got)) < 0 ? -errno : 0;
	sigprocmask(SIG_UNBLOCK, set, NULL);
	return rc;
}

static int record_parse(struct client *c, struct client_annotation *a, pid_t *ret_pid)
{
	const char *value, *pid = NULL;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0) {
		if (o == OPTION_PID)
			pid = value;
		else if (o == OPTION_REASON)
			a->options.reason = value;
		else
			rc = client_add_label(c, a, value);
	}
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	rc = client_pid(c, pid, ret_pid);
	return rc != 0 ? rc : -1;
}

static int record_run(struct client *c)
{
	_cleanup_object_ struct csight_object *target = NULL, *snapshot = NULL;
	struct client_annotation a = { .options = { .size = sizeof(a.options), .flags = CSIGHT_NO_ARM } };
	_cleanup_close_ int pidfd = -1, signals = -1;
	sigset_t set;
	pid_t pid;
	int rc = record_parse(c, &a, &pid);

	if (rc >= 0)
		return rc;
	rc = client_connect(c);
	if (rc != 0)
		return rc;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	rc = csight_arm(c->daemon, pid, NULL, &target);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (csight_text(target, "trouble")) {
		client_error("nothing of process %d is recorded: %s", (int)pid, esc(csight_text(target, "trouble")));
		return STATUS_FAILED;
	}
	signals = open_signals(&set);
	if (!c->quiet)
		fprintf(stderr, "recording %s (process %d); Ctrl-C takes the snapshot\n",
			esc(csight_text(target, "name")), (int)pid);
	rc = signals < 0 ? signals : wait_for_end(pidfd, signals, &set);
	if (rc < 0) {
		client_error("cannot wait for the end of the recording: %s", strerror(-rc));
		return STATUS_FAILED;
	}
	rc = csight_snapshot_with(c->daemon, pid, &a.options, client_progress, c, &snapshot);
	client_progress_end(c);
	return rc < 0 ? client_daemon_failed(c, rc) : client_report_snapshot(c, stdout, snapshot);
}

/* Returns the target of a process that runs, or NULL. */
static const struct csight_object *find_target(const struct csight_object *list, pid_t pid)
{
	for (size_t i = 0; i < csight_count(list, "targets"); i++) {
		const struct csight_object *t = csight_item(list, "targets", i);

		if (csight_number(t, "pid", 0) == pid && csight_flag(t, "running"))
			return t;
	}
	return NULL;
}

/* A process that its parent has not waited for has ended, too. */
static bool has_ended(pid_t pid)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd < 0 ? errno == ESRCH : poll(&p, 1, 0) == 1;
}

/* Checks once whether the process is armed. Returns -1 if it is not armed yet, else the exit status. */
static int check_armed(struct client *c, pid_t pid)
{
	_cleanup_object_ struct csight_object *list = NULL;
	const struct csight_object *target;
	const char *state;
	int rc = csight_targets(c->daemon, &list);

	if (rc < 0)
		return client_daemon_failed(c, rc);
	target = find_target(list, pid);
	state = csight_text(target, "state");
	if (state && strcmp(state, "armed") == 0) {
		if (c->json)
			client_print_json_member(stdout, "target", csight_json(target));
		else if (!c->quiet)
			printf("%s (process %d) is armed\n", esc(csight_text(target, "name")), (int)pid);
		return STATUS_OK;
	}
	if (state && strcmp(state, "blocked") == 0) {
		client_error("nothing of process %d is recorded: %s", (int)pid, esc(csight_text(target, "trouble")));
		return STATUS_FAILED;
	}
	if (has_ended(pid)) {
		client_error("process %d has ended, or does not exist", (int)pid);
		return STATUS_NOT_FOUND;
	}
	return -1;
}

static int wait_armed_run(struct client *c)
{
	const struct timespec pause = { 0, PAUSE_MS * 1000000 };
	const char *value, *pid_text = NULL, *timeout = NULL;
	uint64_t began = now_ns(CLOCK_MONOTONIC);
	int64_t seconds = INT32_MAX;
	pid_t pid;
	int o, rc;

	while ((o = client_option(c, &value)) >= 0)
		*(o == WAIT_PID ? &pid_text : &timeout) = value;
	if (o == CLIENT_STOP)
		return c->status;
	if (timeout && parse_i64(timeout, 0, INT32_MAX, &seconds) < 0)
		return client_usage(c, "--timeout: '%s' is not a number of seconds", esc(timeout));
	rc = client_pid(c, pid_text, &pid);
	if (rc == 0)
		rc = client_connect(c);
	if (rc != 0)
		return rc;
	while ((rc = check_armed(c, pid)) < 0) {
		if (now_ns(CLOCK_MONOTONIC) - began >= (uint64_t)seconds * 1000000000u) {
			client_error("process %d was not armed within %s s", (int)pid, esc(timeout));
			return STATUS_FAILED;
		}
		nanosleep(&pause, NULL);
	}
	return rc;
}

const struct verb cmd_record = {
	.name = "record",
	.arguments = "--pid N",
	.summary = "record a process until Ctrl-C, and save its history",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = record_options,
	.run = record_run,
};

const struct verb cmd_wait_armed = {
	.name = "wait-armed",
	.arguments = "--pid N",
	.summary = "wait until a process is recorded",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = wait_options,
	.run = wait_armed_run,
};
