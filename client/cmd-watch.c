/* SPDX-License-Identifier: MIT */
/* csight watch. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "client/client.h"
#include "client/format.h"
#include "client/group.h"
#include "client/live-function.h"
#include "lib/base/escape.h"
#include "lib/csight/trigger-calls.h"
#include "lib/trigger/trigger-spec.h"

enum { OPTION_PID, OPTION_WHEN, OPTION_EXEC, OPTION_BACKGROUND, OPTION_KEEP, OPTION_SPEC };

/* From OPTION_SPEC on, options are keys of lib/trigger/trigger-spec.h. */
static const struct verb_option options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_WHEN] = { "when", 0, "COMMAND", "run it with the shell; take the snapshot when it ends" },
	[OPTION_EXEC] = { "exec", 0, "COMMAND", "run it with the shell for each snapshot, in $CSIGHT_SNAPSHOT" },
	[OPTION_BACKGROUND] = { "background", 0, NULL, "leave the trigger to csightd, and return" },
	[OPTION_KEEP] = { "keep", 0, "worst=N", "keep only the N snapshots with the longest durations" },
	[OPTION_SPEC] = { "function", 'f', "NAME", "a function is called" },
	{ "address", 0, "ADDRESS", "control reaches an address" },
	{ "line", 0, "FILE:N", "control reaches a source line" },
	{ "syscall", 0, "NAME", "a system call; needs --longer-than" },
	{ "off-cpu-longer-than", 0, "TIME", "a thread was off the processor for longer than this, or than p99" },
	{ "longer-than", 0, "TIME", "the call takes longer than this (5ms), or than p99 of the last minute" },
	{ "signal", 0, "NAME", "a signal is delivered" },
	{ "crash", 0, NULL, "a signal ends the process" },
	{ "exit", 0, NULL, "the process ends" },
	{ "exit-status", 0, "N", "the process exits with this status" },
	{ "oom", 0, NULL, "the kernel's out-of-memory killer ends the process" },
	{ "period", 0, "TIME", "this time has passed, again and again" },
	{ "or", 0, NULL, "between two events: each hit of one or the other" },
	{ "and", 0, NULL, "between two events: hits of both; needs --within" },
	{ "within", 0, "TIME", "of --and: the hits of all events are in this time, in any order" },
	{ "once", 0, NULL, "take one snapshot" },
	{ "max", 0, "N", "take at most N snapshots; 0: only count" },
	{ "every", 0, "TIME", "take a snapshot at most once in this time" },
	{ "after", 0, "TIME", "take the snapshot this long after the event" },
	{ "group", 0, "KIND", "snapshots of all armed processes of its tree, cgroup or unit" },
	{ "min-history", 0, "TIME", "take none before the process was recorded for this long" },
	{ 0 },
};

struct watch {
	struct client *client;
	const char *when, *exec;
	bool background;
	unsigned n_spec; /* options of spec */
	pid_t pid;
	int64_t id; /* of the trigger */
	struct trigger_spec spec;
	struct reason endless; /* why it is unknown where a function returns, if it is */
	const char *endless_name;
};

static const char *outcome_text(const char *name)
{
	static const char *const texts[][2] = {
		{ "max", "after the last snapshot" },           { "every", "too soon after a snapshot" },
		{ "busy", "while a snapshot was being taken" }, { "min-history", "with too short a history" },
		{ "keep", "shorter than those that are kept" }, { "limit", "over the limit of this user" },
		{ "failed", "of which the snapshot failed" },   { "unread", "not read in time" },
	};

	for (size_t i = 0; i < ELEMENTS(texts); i++)
		if (strcmp(texts[i][0], name) == 0)
			return texts[i][1];
	return NULL;
}

/* Prints the counts of a trigger. */
static void print_end(const struct csight_object *t)
{
	static const char *const names[] = {
		"max", "every", "busy", "min-history", "keep", "limit", "failed", "unread"
	};
	const struct csight_object *became = csight_field(t, "became");

	fprintf(stderr, "%s, %s taken", format_plural((uint64_t)csight_number(t, "hits", 0), "hit"),
		format_plural((uint64_t)csight_number(became, "taken", 0), "snapshot"));
	for (size_t i = 0; i < ELEMENTS(names); i++)
		if (csight_number(became, names[i], 0))
			fprintf(stderr, "; %s %s", format_count((uint64_t)csight_number(became, names[i], 0)),
				outcome_text(names[i]));
	if (csight_number(t, "unknown", 0))
		fprintf(stderr, "; %s of unknown duration",
			format_plural((uint64_t)csight_number(t, "unknown", 0), "call"));
	fputc('\n', stderr);
}

/* Runs a command with the shell. Returns its wait status, or -1 after an error message. */
static int run_shell(struct client *c, const char *command, const char *snapshot)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (snapshot)
			setenv("CSIGHT_SNAPSHOT", snapshot, 1);
		setenv("CSIGHT_SOCKET", csight_socket(c->daemon), 1);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	if (child > 0 && waitpid(child, &status, 0) >= 0)
		return status;
	client_error("cannot run '%s': %s", esc(command), strerror(errno));
	return -1;
}

static void run_command(const struct watch *w, const struct csight_object *snapshot)
{
	const char *id = csight_text(snapshot, "id");
	int status = run_shell(w->client, w->exec, id ? id : "");

	if (status > 0)
		client_error("'%s' failed with status %d", esc(w->exec),
			     WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/*
 * The connection of the trigger; a duplicate, so that the trigger exists until its counts are printed. Negative: none.
 */
static volatile sig_atomic_t connection = -1;
static volatile sig_atomic_t interrupted;

/* Ends the wait for events, but not the trigger: the daemon does not notice. */
static void on_signal(int number)
{
	int saved = errno;

	interrupted = 1;
	shutdown(connection, SHUT_RD);
	errno = saved;
}

/* The first signal ends the trigger, the second one csight. */
static void catch_signals(const struct client *c)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };

	connection = fcntl(trigger_call_fd(c->daemon), F_DUPFD_CLOEXEC, 0);
	if (connection < 0)
		return;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Prints the counts of the trigger whose wait a signal ended. Returns the exit status. */
static int end_interrupted(struct watch *w)
{
	_cleanup_object_ struct csight_object *list = NULL;
	int rc = w->client->quiet ? 0 : trigger_call_list(w->client->daemon, &list);

	for (size_t i = 0; i < csight_count(list, "triggers"); i++)
		if (csight_number(csight_item(list, "triggers", i), "id", 0) == w->id)
			print_end(csight_item(list, "triggers", i));
	return rc < 0 ? client_daemon_failed(w->client, rc) : w->client->status;
}

static int on_event(void *userdata, const struct csight_object *reply)
{
	const struct csight_object *trigger = csight_field(reply, "trigger"),
				   *snapshot = csight_field(reply, "snapshot");
	struct watch *w = userdata;
	const char *group;

	/* The last event has the trigger, too. */
	if (trigger && !w->id) {
		w->id = csight_number(trigger, "id", 0);
		catch_signals(w->client);
	}
	if (trigger && !w->client->quiet)
		fprintf(stderr, "watching process %d (%s): %s\n", (int)w->pid, esc(csight_text(trigger, "name")),
			esc(csight_text(trigger, "condition")));
	if (!snapshot)
		return 0;
	if (client_report_snapshot(w->client, stdout, snapshot) != STATUS_OK)
		w->client->status = STATUS_FAILED;
	group = group_of(snapshot);
	if (group && !w->client->json && !w->client->quiet)
		printf("view the group with: csight show " GROUP_PREFIX "%s\n", esc(group));
	fflush(stdout);
	if (w->exec)
		run_command(w, snapshot);
	return 0;
}

/* Parses the command line. Returns -1 to continue, else the exit status. */
static int parse_options(struct client *c, struct watch *w, const char **pid)
{
	struct reason why = { "" };
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0) {
		if (o == OPTION_PID)
			*pid = value;
		else if (o == OPTION_EXEC)
			w->exec = value;
		else if (o == OPTION_WHEN)
			w->when = value;
		else if (o == OPTION_BACKGROUND)
			w->background = true;
		else
			rc = trigger_spec_set(&w->spec, options[o].name, options[o].argument ? value : NULL, &why);
		w->n_spec += o >= OPTION_KEEP;
	}
	if (rc == 0 && o == CLIENT_STOP)
		return c->status;
	if (rc == 0 && w->when && (w->n_spec || w->background))
		rc = reason_set(&why, -EINVAL, "--when takes one snapshot: of the options, only --exec goes with it");
	if (rc == 0 && !w->when)
		rc = trigger_spec_check(&w->spec, &why);
	/* Without --background, csight watch runs the command of --exec itself. */
	if (rc == 0 && w->exec && w->background)
		rc = trigger_spec_set(&w->spec, "exec", w->exec, &why);
	return rc < 0 ? client_usage(c, "%s", why.text) : -1;
}

/* Returns the program's file, as csightd knows it; NULL: it is no target. */
static const char *find_exe(struct client *c, pid_t pid, struct csight_object **list)
{
	if (csight_targets(c->daemon, list) < 0)
		return NULL;
	for (size_t i = 0; i < csight_count(*list, "targets"); i++) {
		const struct csight_object *t = csight_item(*list, "targets", i);

		if (csight_number(t, "pid", 0) == pid && csight_flag(t, "running"))
			return csight_text(t, "exe");
	}
	return NULL;
}

static int set_trigger(struct watch *w, json_object *places)
{
	_cleanup_buf_ struct buf condition = { 0 }, rules = { 0 };
	_cleanup_object_ struct csight_object *reply = NULL;
	_cleanup_free_ char *text = NULL;
	struct client *c = w->client;
	int rc;

	trigger_spec_append_text(&w->spec, &condition);
	trigger_spec_rules(&w->spec, &rules);
	if (buf_error(&condition) < 0 || buf_error(&rules) < 0 ||
	    asprintf(&text, "%s %s", (const char *)condition.data, (const char *)rules.data) < 0) {
		json_object_put(places);
		client_error("out of memory");
		return STATUS_FAILED;
	}
	rc = trigger_call_watch(c->daemon,
				&(struct trigger_call){ .pid = w->pid,
							.trigger = text,
							.places = places,
							.event = w->background ? NULL : on_event,
							.userdata = w },
				&reply);
	if (rc < 0 && interrupted)
		return end_interrupted(w);
	if (rc < 0) {
		rc = client_daemon_failed(c, rc);
		if (w->endless_name)
			fprintf(stderr, "  %s: %s\n", esc(w->endless_name), w->endless.text);
		return rc;
	}
	if (w->background && c->json)
		client_print_json_text(csight_json(reply));
	else if (w->background)
		printf("%" PRId64 "\n", csight_number(csight_field(reply, "trigger"), "id", 0));
	else if (!c->quiet)
		print_end(csight_field(reply, "trigger"));
	return c->status;
}

/*
 * Arms the process, runs the command of --when, and takes a snapshot when that succeeds or fails: the process is
 * recorded while the command runs.
 */
static int watch_command(struct watch *w)
{
	struct csight_snapshot_options how = { .size = sizeof(how) };
	_cleanup_object_ struct csight_object *snapshot = NULL;
	char reason[256];
	int status, rc = csight_arm(w->client->daemon, w->pid, NULL, NULL);

	if (rc < 0)
		return client_daemon_failed(w->client, rc);
	status = run_shell(w->client, w->when, NULL);
	if (status < 0)
		return STATUS_FAILED;
	snprintf(reason, sizeof(reason), WIFEXITED(status) ? "exit status %d of: %.200s" : "signal %d ended: %.200s",
		 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), w->when);
	how.reason = reason;
	rc = csight_snapshot_with(w->client->daemon, w->pid, &how, NULL, NULL, &snapshot);
	if (rc < 0)
		return client_daemon_failed(w->client, rc);
	rc = client_report_snapshot(w->client, stdout, snapshot);
	if (w->exec)
		run_command(w, snapshot);
	return rc;
}

/* Moves the places of a condition to a list. */
static void move_places(json_object *from, unsigned condition, json_object **to)
{
	*to = *to ? *to : json_object_new_array();
	for (size_t i = 0; i < json_array_size(from); i++) {
		json_object *place = json_object_get(json_object_array_get_idx(from, i));

		if (condition)
			json_add_u64(place, "condition", condition);
		json_array_add(*to, place);
	}
}

/* Finds the places of the functions and lines. Returns 0, or an exit status after an error message. */
static int find_places(struct watch *w, json_object **ret)
{
	_cleanup_object_ struct csight_object *targets = NULL;
	const char *exe = NULL;
	int rc = 0;

	for (unsigned i = 0; i < trigger_spec_count(&w->spec) && rc == 0; i++) {
		const struct trigger_condition *c = &w->spec.conditions[i];
		_cleanup_json_ json_object *places = NULL;
		struct reason why = { "" };

		if (!trigger_condition_needs_symbols(c))
			continue;
		if (!targets)
			exe = find_exe(w->client, w->pid, &targets);
		rc = c->event == TRIGGER_LINE ? live_function_line(w->pid, exe, c->value, &places)
					      : live_function_find(w->pid, exe, c->value, &places, &why);
		if (rc == 0)
			move_places(places, i, ret);
		if (c->timed && *why.text) {
			w->endless = why;
			w->endless_name = c->value;
		}
	}
	return rc;
}

static int watch_run(struct client *c)
{
	struct watch w = { .client = c };
	const char *pid_text = NULL;
	json_object *places = NULL;
	int rc;

	rc = parse_options(c, &w, &pid_text);
	if (rc >= 0)
		return rc;
	rc = client_pid(c, pid_text, &w.pid);
	if (rc == 0)
		rc = client_connect(c);
	if (rc == 0 && w.when)
		return watch_command(&w);
	if (rc == 0)
		rc = find_places(&w, &places);
	if (rc == 0)
		return set_trigger(&w, places);
	json_object_put(places);
	return rc;
}

const struct verb cmd_watch = {
	.name = "watch",
	.arguments = "--pid N EVENT [--or EVENT... | --and EVENT... --within TIME] [RULE...]",
	.summary = "take snapshots of a process when something happens",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = watch_run,
};
