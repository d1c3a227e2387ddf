/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <inttypes.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>

#include "daemon/runner.h"
#include "daemon/trigger/trigger-exec.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum {
	RUNNING_PER_USER = 4,
	RUNNING_MAX = 32,
	REAP_MS = 10,
	VARIABLE_SIZE = 4 * TRIGGER_VALUE_SIZE, /* the longest is the condition */
};

/* A connection to csight-runner, which lasts as long as the command. */
struct running {
	LIST_ENTRY(running) link;
	struct trigger_exec *all;
	struct event *event; /* the end of the connection, then a timer until the process is reaped */
	uid_t uid;
	pid_t pid; /* of the csight-runner that csightd started; 0: its unit runs it */
	int fd;
};

struct trigger_exec {
	struct event_base *base;
	const struct settings *settings;
	LIST_HEAD(, running) running;
};

struct environment {
	struct runner_command *command;
	size_t used;
	char text[VARIABLE_SIZE + PATH_MAX];
};

static void running_free(struct running *r)
{
	LIST_REMOVE(r, link);
	if (r->event)
		event_free(r->event);
	closep(&r->fd);
	free(r);
}

static void on_reap(evutil_socket_t fd, short what, void *data)
{
	const struct timeval pause = { 0, REAP_MS * 1000 };
	struct running *r = data;

	if (!r->pid || waitpid(r->pid, NULL, WNOHANG) != 0 || event_add(r->event, &pause) < 0)
		running_free(r);
}

/* csight-runner has ended, or is about to. */
static void on_end(evutil_socket_t fd, short what, void *data)
{
	struct running *r = data;

	event_free(r->event);
	r->event = evtimer_new(r->all->base, on_reap, r);
	if (r->event)
		on_reap(-1, 0, r);
	else
		running_free(r);
}

static const char *socket_of(const struct trigger_exec *x)
{
	return x->settings->runner[0] ? x->settings->runner : NULL;
}

int trigger_exec_check(const struct trigger_exec *x, uid_t uid, struct reason *why)
{
	return runner_check(socket_of(x), uid, why);
}

static void add_variable(struct environment *e, const char *name, const char *value)
{
	size_t left = sizeof(e->text) - e->used;
	int n = snprintf(e->text + e->used, left, "%s=%s", name, value);

	if (n < 0 || (size_t)n >= left || e->command->n_environment >= RUNNER_ENVIRONMENT_MAX)
		return;
	e->command->environment[e->command->n_environment++] = e->text + e->used;
	e->used += (size_t)n + 1;
}

static void add_number(struct environment *e, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	add_variable(e, name, text);
}

/* The fields of the journal's event have the same names. */
static void set_environment(const struct trigger_exec *x, const struct trigger_exec_hit *hit, struct environment *e)
{
	add_variable(e, "CSIGHT_SOCKET", x->settings->socket);
	add_variable(e, "CSIGHT_SNAPSHOT", hit->snapshot);
	add_variable(e, "CSIGHT_SNAPSHOT_STATE", hit->state);
	add_number(e, "CSIGHT_TARGET_PID", (uint64_t)hit->pid);
	add_variable(e, "CSIGHT_TRIGGER", hit->condition);
	add_number(e, "CSIGHT_TRIGGER_ID", hit->id);
	if (hit->name)
		add_variable(e, "CSIGHT_TRIGGER_NAME", hit->name);
	if (hit->timed)
		add_number(e, "CSIGHT_TRIGGER_VALUE", hit->value);
	if (hit->tid)
		add_number(e, "CSIGHT_TRIGGER_TID", (uint64_t)hit->tid);
}

/* False if as many commands run as are permitted for the user, or for all. */
static bool may_run(const struct trigger_exec *x, uid_t uid)
{
	unsigned all = 0, users = 0;
	const struct running *r;

	LIST_FOREACH(r, &x->running, link)
	{
		all++;
		users += r->uid == uid;
	}
	return users < RUNNING_PER_USER && all < RUNNING_MAX;
}

static int begin(struct trigger_exec *x, const struct runner_command *command)
{
	struct running *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	rc = runner_start(socket_of(x), command, &r->pid);
	if (rc < 0) {
		free(r);
		return rc;
	}
	r->all = x;
	r->uid = command->uid;
	r->fd = rc;
	LIST_INSERT_HEAD(&x->running, r, link);
	r->event = event_new(x->base, r->fd, EV_READ, on_end, r);
	if (r->event && event_add(r->event, NULL) == 0)
		return 0;
	running_free(r);
	return -ENOMEM;
}

void trigger_exec_run(struct trigger_exec *x, const struct trigger_exec_hit *hit)
{
	_cleanup_free_ struct environment *e = calloc(1, sizeof(*e));
	struct reason why = { "" };
	char about[32];
	struct runner_command command = { .uid = hit->uid, .about = about, .command = hit->command };
	int rc;

	snprintf(about, sizeof(about), "trigger %" PRIu32, hit->id);
	rc = e ? trigger_exec_check(x, hit->uid, &why) : -ENOMEM;
	if (rc == 0 && !may_run(x, hit->uid))
		rc = reason_set(&why, -EDQUOT, "%d commands of a user, and %d of all, may run at once",
				RUNNING_PER_USER, RUNNING_MAX);
	if (rc == 0) {
		e->command = &command;
		set_environment(x, hit, e);
		rc = begin(x, &command);
	}
	if (rc < 0)
		log_warning("the command of %s of uid %u is not run for snapshot %s: %s", about, hit->uid,
			    esc(hit->snapshot), *why.text ? why.text : strerror(-rc));
}

int trigger_exec_new(struct event_base *base, const struct settings *settings, struct trigger_exec **ret)
{
	struct trigger_exec *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->base = base;
	x->settings = settings;
	LIST_INIT(&x->running);
	*ret = x;
	return 0;
}

struct trigger_exec *trigger_exec_free(struct trigger_exec *x)
{
	struct running *r;

	while (x && (r = LIST_FIRST(&x->running)))
		running_free(r);
	free(x);
	return NULL;
}
