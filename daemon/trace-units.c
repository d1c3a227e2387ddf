#include "config.h"

#include <string.h>

#include "daemon/workqueue.h"
#include "daemon/target.h"
#include "daemon/trace-units.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

struct trace_units {
	struct work drain;
	struct daemon *daemon;
	struct perf_machine *machine;
	struct event *readable, *timer;
	bool draining, stopped;
	char why[PERF_WHY_MAX];
};

static void run_drain(struct work *w)
{
	perf_machine_drain(container_of(w, struct trace_units, drain)->machine);
}

static void watch(struct trace_units *u)
{
	struct timeval period = { 0, PERF_DRAIN_MS * 1000 };

	event_add(u->readable, NULL);
	event_add(u->timer, &period);
}

/* A process that became somebody else's has ended for its owner. */
static void end_lost(struct daemon *d)
{
	struct target *t, *next;

	for (t = TAILQ_FIRST(target_list_all(d->targets)); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->ring.ops != &perf_capture || t->ring.state == RING_GONE || !perf_target_lost(t->ring.source))
			continue;
		log_notice("process %d of uid %u executed what is not its owner's alone: it is no longer traced",
			   (int)t->pid, t->uid);
		target_gone(t);
	}
}

static void drained(struct work *w)
{
	struct trace_units *u = container_of(w, struct trace_units, drain);

	u->draining = false;
	if (u->stopped)
		return;
	end_lost(u->daemon);
	watch(u);
}

static void on_time(evutil_socket_t fd, short what, void *data)
{
	struct trace_units *u = data;

	if (u->draining)
		return;
	u->draining = true;
	event_del(u->readable);
	event_del(u->timer);
	workqueue_submit(u->daemon->capture, &u->drain);
}

static int find(struct trace_units *u)
{
	const struct settings *s = &u->daemon->settings;
	const struct perf_settings wanted = {
		.sink = strcmp(s->sink, "auto") == 0 ? NULL : s->sink,
		.aux_size = s->ring_size,
		.memory = s->rings_max,
		.machine = strcmp(s->arm, "machine") == 0,
	};
	int rc = perf_machine_new(&wanted, &u->machine, u->why);

	if (rc < 0)
		return rc;
	u->why[0] = 0;
	u->readable = event_new(u->daemon->base, perf_machine_fd(u->machine), EV_READ, on_time, u);
	u->timer = evtimer_new(u->daemon->base, on_time, u);
	if (!u->readable || !u->timer)
		return -ENOMEM;
	watch(u);
	log_notice("trace comes from the trace units of this machine");
	return 0;
}

int trace_units_new(struct daemon *d, struct trace_units **ret)
{
	struct trace_units *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return -ENOMEM;
	u->daemon = d;
	u->drain = (struct work){ run_drain, drained };
	if (strcmp(d->settings.capture, "emu") == 0) {
		snprintf(u->why, sizeof(u->why),
			 "the configuration has programs under the emulated ETM alone (capture)");
		*ret = u;
		return 0;
	}
	rc = find(u);
	if (rc < 0 && strcmp(d->settings.capture, "perf") == 0) {
		log_error("there are no trace units to use: %s", esc(u->why));
		trace_units_free(u);
		return rc;
	}
	*ret = u;
	return 0;
}

struct perf_machine *trace_units_machine(struct trace_units *u)
{
	if (!u->machine && strcmp(u->daemon->settings.capture, "emu") != 0)
		find(u);
	return u->machine;
}

const char *trace_units_why(const struct trace_units *u)
{
	return u->why;
}

void trace_units_stop(struct trace_units *u)
{
	u->stopped = true;
	if (u->readable)
		event_del(u->readable);
	if (u->timer)
		event_del(u->timer);
}

struct trace_units *trace_units_free(struct trace_units *u)
{
	if (!u)
		return NULL;
	if (u->readable)
		event_free(u->readable);
	if (u->timer)
		event_free(u->timer);
	perf_machine_free(u->machine);
	free(u);
	return NULL;
}
