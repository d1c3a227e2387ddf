/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/queue.h>
#include <sys/wait.h>

#include "daemon/decode-server.h"
#include "daemon/job-log.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/base/path.h"
#include "lib/base/util.h"
#include "lib/decoder/decoder.h"

enum {
	PAUSE_MS = 100, /* before a restart; doubles with each failure */
	PAUSE_MAX_MS = 30000,
	STEADY_SECONDS = 10, /* of running, after which the pause is short again */
	OUTAGE_SECONDS = 10, /* for which snapshots wait for a server */
};

/* The standard error of a child. */
struct child_log {
	TAILQ_ENTRY(child_log) link;
	uint64_t job;
	struct job_log *log;
};

struct decode_server {
	struct event_base *base;
	struct decode_server_events events;
	void *data;
	char path[PATH_MAX];
	uid_t uid;
	gid_t gid;
	char socket[PATH_MAX]; /* of its unit; empty: none */
	pid_t pid;             /* 0: not running, or of its unit */
	int fd;
	struct event *event, *restart;
	uint64_t since_ns; /* CLOCK_MONOTONIC of the last start */
	uint64_t lost_ns;  /* ... of the first of the failures */
	unsigned failures;
	uint64_t last_job;
	TAILQ_HEAD(, child_log) logs;
	struct job_log_rate log_rate;
	char why[192]; /* why it does not run */
};

static void start_server(struct decode_server *d);

static void child_log_free(struct decode_server *d, struct child_log *log)
{
	TAILQ_REMOVE(&d->logs, log, link);
	job_log_free(log->log);
	free(log);
}

static void end_log(struct decode_server *d, uint64_t job)
{
	struct child_log *log;

	TAILQ_FOREACH (log, &d->logs, link)
		if (log->job == job) {
			child_log_free(d, log);
			return;
		}
}

/* Gives the next job a log. It does without one where that fails. */
static void begin_log(struct decode_server *d, uint64_t job, const char *about)
{
	struct child_log *log = calloc(1, sizeof(*log));
	_cleanup_close_ int fd = -1;
	char text[128];

	snprintf(text, sizeof(text), "%s: csight-decode", about);
	if (!log || job_log_new(d->base, text, &d->log_rate, &log->log, &fd) < 0) {
		free(log);
		return;
	}
	log->job = job;
	TAILQ_INSERT_TAIL(&d->logs, log, link);
	if (decoder_give_log(d->fd, job, fd) < 0)
		child_log_free(d, log);
}

static void schedule_restart(struct decode_server *d)
{
	uint64_t ms;
	struct timeval pause;

	if (now_ns(CLOCK_MONOTONIC) - d->since_ns > STEADY_SECONDS * 1000000000ull)
		d->failures = 0;
	if (!d->failures)
		d->lost_ns = now_ns(CLOCK_MONOTONIC);
	ms = MIN((uint64_t)PAUSE_MS << MIN(d->failures, 10u), (uint64_t)PAUSE_MAX_MS);
	d->failures++;
	pause = (struct timeval){ (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };
	event_add(d->restart, &pause);
}

static void close_socket(struct decode_server *d)
{
	while (!TAILQ_EMPTY(&d->logs))
		child_log_free(d, TAILQ_FIRST(&d->logs));
	if (d->event)
		event_free(d->event);
	d->event = NULL;
	closep(&d->fd);
}

static void lose_server(struct decode_server *d, const char *why)
{
	snprintf(d->why, sizeof(d->why), "%s", why);
	log_error("%s; restarting it", d->why);
	d->events.lost(d->data);
	schedule_restart(d);
}

static void on_server(evutil_socket_t fd, short what, void *data)
{
	struct decode_server *d = data;
	uint64_t job;
	int status, rc;

	while ((rc = decoder_receive_end(fd, MSG_DONTWAIT, &job, &status)) == 0) {
		end_log(d, job);
		d->events.ended(d->data, job, status);
	}
	if (rc == -EAGAIN)
		return;
	/* The socket is closed, or the message is invalid. SIGCHLD reports the end of a server that is a child. */
	close_socket(d);
	if (d->pid > 0)
		decode_server_kill(d);
	else
		lose_server(d, "csight-decode ended unexpectedly (csight-decode@.service)");
}

/* Connects to the server of the unit, or, if the unit is not active, starts a child. */
static int reach_server(struct decode_server *d)
{
	int rc = d->socket[0] ? decoder_connect(d->socket, &d->fd) : -ENOENT;

	d->pid = 0;
	if (rc == -ENOENT || rc == -ECONNREFUSED)
		rc = decoder_spawn(d->path, d->uid, d->gid, &d->pid, &d->fd);
	return rc;
}

static void start_server(struct decode_server *d)
{
	int rc;

	d->since_ns = now_ns(CLOCK_MONOTONIC);
	rc = reach_server(d);
	if (rc < 0) {
		d->pid = 0;
		d->fd = -1;
		snprintf(d->why, sizeof(d->why), "cannot start csight-decode: %s%s", strerror(-rc),
			 rc == -EPERM ? " (without csight-decode.socket, running it as another user requires "
					"CAP_SETUID and CAP_SETGID)"
				      : "");
		log_error("%s: %s", d->path, d->why);
		schedule_restart(d);
		d->events.lost(d->data);
		return;
	}
	/* Non-blocking, so that the server cannot block the loop. */
	fcntl(d->fd, F_SETFL, O_NONBLOCK);
	d->event = event_new(d->base, d->fd, EV_READ | EV_PERSIST, on_server, d);
	if (d->event)
		event_add(d->event, NULL);
	if (d->pid)
		log_debug("csight-decode is process %d", (int)d->pid);
	else
		log_debug("csight-decode is of the unit of %s", d->socket);
	d->events.ready(d->data);
}

static void on_restart(evutil_socket_t fd, short what, void *data)
{
	start_server(data);
}

int decode_server_new(const struct decode_server_options *o, struct decode_server **ret)
{
	struct decode_server *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->base = o->base;
	d->events = o->events;
	d->data = o->data;
	snprintf(d->socket, sizeof(d->socket), "%s", o->socket ? o->socket : "");
	d->fd = -1;
	TAILQ_INIT(&d->logs);
	snprintf(d->why, sizeof(d->why), "csight-decode is not running");
	d->restart = evtimer_new(o->base, on_restart, d);
	rc = d->restart ? decoder_user(o->user, &d->uid, &d->gid) : -ENOMEM;
	if (rc == -ESRCH)
		log_error(
		    "cannot run csight-decode as user \"%s\": there is no such user; create it (systemd-sysusers), or "
		    "name another one with decode-user",
		    esc(o->user));
	if (rc < 0) {
		decode_server_free(d);
		return rc;
	}
	/* If the program is missing, starting it fails, and is retried: it may be installed later. */
	if (path_helper("csight-decode", PKGLIBEXECDIR, d->path, sizeof(d->path)) < 0)
		snprintf(d->path, sizeof(d->path), "%s/csight-decode", PKGLIBEXECDIR);
	start_server(d);
	*ret = d;
	return 0;
}

struct decode_server *decode_server_free(struct decode_server *d)
{
	if (!d)
		return NULL;
	close_socket(d);
	if (d->restart)
		event_free(d->restart);
	if (d->pid > 0) {
		kill(d->pid, SIGKILL);
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(d);
	return NULL;
}

bool decode_server_ready(const struct decode_server *d)
{
	return d->fd >= 0;
}

bool decode_server_hopeless(const struct decode_server *d)
{
	return d->fd < 0 && d->failures && now_ns(CLOCK_MONOTONIC) - d->lost_ns > OUTAGE_SECONDS * 1000000000ull;
}

const char *decode_server_why(const struct decode_server *d)
{
	return d->why;
}

int decode_server_submit(struct decode_server *d, const char *about, uint64_t limit, uint64_t *ret_job)
{
	int fd, rc;

	if (d->fd < 0)
		return -EPIPE;
	begin_log(d, d->last_job + 1, about);
	rc = decoder_submit_limited(d->fd, d->last_job + 1, limit, &fd);
	if (rc < 0) {
		end_log(d, d->last_job + 1);
		return rc;
	}
	*ret_job = ++d->last_job;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

void decode_server_extend(struct decode_server *d, uint64_t job, uint64_t limit)
{
	if (d->fd >= 0)
		decoder_extend(d->fd, job, limit);
}

void decode_server_kill_job(struct decode_server *d, uint64_t job)
{
	if (d->fd >= 0)
		decoder_kill(d->fd, job);
}

void decode_server_kill(struct decode_server *d)
{
	if (d->pid > 0)
		kill(d->pid, SIGKILL);
	else if (d->fd >= 0)
		/* The end of the socket ends the server, and is reported here as that. */
		shutdown(d->fd, SHUT_RDWR);
}

void decode_server_reap(struct decode_server *d)
{
	char why[sizeof(d->why)];
	int status;

	if (d->pid <= 0 || waitpid(d->pid, &status, WNOHANG) != d->pid)
		return;
	snprintf(why, sizeof(why), "csight-decode ended unexpectedly (%s %d)",
		 WIFSIGNALED(status) ? "signal" : "status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	d->pid = 0;
	close_socket(d);
	lose_server(d, why);
}
