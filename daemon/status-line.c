/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/notify.h"
#include "daemon/status-line.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

struct status_line {
	struct event *event;
	const struct target_list *targets;
	const struct spool *spool;
};

static void compose(const struct status_line *s, char *ret, size_t size)
{
	const struct snapshot *snapshot;
	unsigned targets = 0, snapshots = 0;
	const struct target *t;
	char error[256];
	int n;

	TAILQ_FOREACH (t, target_list_all(s->targets), link)
		targets++;
	TAILQ_FOREACH (snapshot, spool_list(s->spool), link)
		snapshots++;
	n = snprintf(ret, size, "%u targets, %u snapshots", targets, snapshots);
	if (log_last_error(error, sizeof(error)))
		snprintf(ret + n, size - (size_t)n, "; last error: %s", esc(error));
}

static void on_due(evutil_socket_t fd, short what, void *data)
{
	char line[1024];

	compose(data, line, sizeof(line));
	notify_status(line);
}

int status_line_new(struct event_base *base, const struct target_list *targets, const struct spool *spool,
		    struct status_line **ret)
{
	struct status_line *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct status_line){ .targets = targets, .spool = spool };
	s->event = evtimer_new(base, on_due, s);
	if (!s->event) {
		free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

struct status_line *status_line_free(struct status_line *s)
{
	if (!s)
		return NULL;
	event_free(s->event);
	free(s);
	return NULL;
}

void status_line_changed(struct status_line *s)
{
	const struct timeval pause = { 1, 0 };

	if (s && !event_pending(s->event, EV_TIMEOUT, NULL))
		event_add(s->event, &pause);
}
