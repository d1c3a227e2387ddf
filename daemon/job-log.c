/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/job-log.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum {
	LINE_MAX_BYTES = 240, /* longer ones are cut; escaped it still fits in esc() */
	LINES_MAX = 20,       /* of one job */
	BYTES_MAX = 16 << 10, /* of one job, with what is cut */
	LINES_A_MINUTE = 200, /* of all jobs */
	READ_SIZE = 4096,
};

struct job_log {
	struct job_log_rate *rate;
	struct event *event;
	int fd; /* -1: nothing more is logged */
	char about[128];
	char line[LINE_MAX_BYTES + 1];
	size_t used;
	bool cut;       /* the current line is longer than LINE_MAX_BYTES */
	unsigned lines; /* so far */
	size_t bytes;
};

static void close_pipe(struct job_log *l)
{
	if (l->event)
		event_free(l->event);
	l->event = NULL;
	closep(&l->fd);
}

static void stop_logging(struct job_log *l)
{
	if (l->fd < 0)
		return;
	close_pipe(l);
	l->used = 0;
	log_warning("%s wrote more, which is not logged", l->about);
}

/* Counts a line. Returns false if no more may be logged. */
static bool take_line(struct job_log *l)
{
	struct job_log_rate *r = l->rate;
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (now - r->since_ns > 60000000000u)
		*r = (struct job_log_rate){ .since_ns = now };
	return l->lines++ < LINES_MAX && r->lines++ < LINES_A_MINUTE;
}

static void end_line(struct job_log *l)
{
	l->line[l->used] = 0;
	if (l->used && !take_line(l))
		stop_logging(l);
	else if (l->used)
		log_warning("%s wrote: %s%s", l->about, esc(l->line), l->cut ? " (cut)" : "");
	l->used = 0;
	l->cut = false;
}

static void add_text(struct job_log *l, const char *text, size_t n)
{
	for (size_t i = 0; i < n && l->fd >= 0; i++) {
		if (text[i] == '\n')
			end_line(l);
		else if (l->used < LINE_MAX_BYTES)
			l->line[l->used++] = text[i] ? text[i] : '?';
		else
			l->cut = true;
	}
}

/* Reads once. Returns false at the end, or if there is nothing now. */
static bool read_some(struct job_log *l)
{
	char text[READ_SIZE];
	ssize_t n = l->fd < 0 ? 0 : read(l->fd, text, sizeof(text));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		close_pipe(l);
		return false;
	}
	l->bytes += (size_t)n;
	add_text(l, text, (size_t)n);
	if (l->bytes > BYTES_MAX)
		stop_logging(l);
	return l->fd >= 0;
}

static void on_text(evutil_socket_t fd, short what, void *data)
{
	read_some(data);
}

int job_log_new(struct event_base *base, const char *about, struct job_log_rate *rate, struct job_log **ret,
		int *ret_fd)
{
	struct job_log *l = calloc(1, sizeof(*l));
	int fds[2], rc;

	if (!l)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		rc = -errno;
		free(l);
		return rc;
	}
	l->rate = rate;
	l->fd = fds[0];
	snprintf(l->about, sizeof(l->about), "%s", about);
	fcntl(l->fd, F_SETFL, O_NONBLOCK);
	l->event = event_new(base, l->fd, EV_READ | EV_PERSIST, on_text, l);
	if (!l->event || event_add(l->event, NULL) < 0) {
		close(fds[1]);
		close_pipe(l);
		free(l);
		return -ENOMEM;
	}
	*ret = l;
	*ret_fd = fds[1];
	return 0;
}

struct job_log *job_log_free(struct job_log *l)
{
	if (!l)
		return NULL;
	while (read_some(l))
		;
	if (l->used && take_line(l))
		log_warning("%s wrote: %s%s", l->about, esc(l->line), l->cut ? " (cut)" : "");
	close_pipe(l);
	free(l);
	return NULL;
}
