/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/trace-units.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

struct trace_units {
	struct work drain;
	struct trace_units_options o;
	struct perf_machine *machine;
	struct event *readable, *timer;
	bool draining, stopped;
	struct reason why;
};

static void run_drain(struct work *w)
{
	perf_machine_drain(container_of(w, struct trace_units, drain)->machine);
}

static void add_events(struct trace_units *u)
{
	struct timeval period = { 0, perf_machine_drain_ms(u->machine) * 1000 };

	event_add(u->readable, NULL);
	event_add(u->timer, &period);
}

/* Ends the targets whose process has executed a program that is not its owner's alone. */
static void end_lost_targets(struct target_list *targets)
{
	struct target *t, *next;

	for (t = TAILQ_FIRST(target_list_all(targets)); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->ring.source->ops != &perf_capture || t->ring.state == RING_GONE ||
		    !perf_target_lost(t->ring.source))
			continue;
		log_notice("stopped tracing process %d of uid %u: it executed a program with other credentials than "
			   "its owner's",
			   (int)t->pid, t->uid);
		target_gone(t);
	}
}

static void report_hits(const struct trace_units *u)
{
	struct target *t, *next;

	for (t = TAILQ_FIRST(target_list_all(u->o.targets)); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->ring.source->ops == &perf_capture && perf_target_has_hits(t->ring.source))
			u->o.hits(u->o.data, t);
	}
}

static void drain_ran(struct work *w)
{
	struct trace_units *u = container_of(w, struct trace_units, drain);

	u->draining = false;
	if (u->stopped)
		return;
	report_hits(u);
	end_lost_targets(u->o.targets);
	add_events(u);
}

static void on_time(evutil_socket_t fd, short what, void *data)
{
	struct trace_units *u = data;

	if (u->draining)
		return;
	u->draining = true;
	event_del(u->readable);
	event_del(u->timer);
	workqueue_submit_urgent(u->o.capture_queue, &u->drain);
}

static int open_machine(struct trace_units *u)
{
	const struct settings *s = u->o.settings;
	const struct perf_settings wanted = {
		.sink = strcmp(s->sink, "auto") == 0 ? NULL : s->sink,
		.cpus = strcmp(s->cpus, "all") == 0 ? NULL : s->cpus,
		.keeper = *s->keeper ? s->keeper : NULL,
		.kernel = *s->kernel ? s->kernel : NULL,
		.aux_size = s->ring_size,
		.memory = s->rings_max,
		.machine = strcmp(s->arm, "machine") == 0,
		.any_hazard = strcmp(s->hazards, "allow") == 0,
	};
	int rc = perf_machine_new(&wanted, &u->machine, &u->why);

	if (rc < 0)
		return rc;
	u->why.text[0] = 0;
	u->readable = event_new(u->o.base, perf_machine_fd(u->machine), EV_READ, on_time, u);
	u->timer = evtimer_new(u->o.base, on_time, u);
	if (!u->readable || !u->timer)
		return -ENOMEM;
	add_events(u);
	log_notice("using the trace units of this machine");
	return 0;
}

int trace_units_new(const struct trace_units_options *options, struct trace_units **ret)
{
	struct trace_units *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return -ENOMEM;
	u->o = *options;
	u->drain = (struct work){ run_drain, drain_ran };
	if (strcmp(options->settings->capture, "emu") == 0) {
		reason_set(&u->why, 0, "the configuration allows only programs under the emulated ETM (capture = emu)");
		*ret = u;
		return 0;
	}
	rc = open_machine(u);
	if (rc < 0 && strcmp(options->settings->capture, "perf") == 0) {
		log_error("cannot use the trace units of this machine: %s", esc(u->why.text));
		trace_units_free(u);
		return rc;
	}
	*ret = u;
	return 0;
}

struct perf_machine *trace_units_machine(struct trace_units *u)
{
	if (!u->machine && strcmp(u->o.settings->capture, "emu") != 0)
		open_machine(u);
	return u->machine;
}

const char *trace_units_why(const struct trace_units *u)
{
	return u->why.text;
}

struct limit_change {
	struct work work;
	struct perf_machine *machine;
	uint64_t ring_size, rings_max;
};

static void run_limit_change(struct work *w)
{
	struct limit_change *c = container_of(w, struct limit_change, work);

	perf_machine_limit(c->machine, c->ring_size, c->rings_max);
}

static void limit_change_ran(struct work *w)
{
	free(container_of(w, struct limit_change, work));
}

void trace_units_update(struct trace_units *u)
{
	struct limit_change *c = u->machine ? malloc(sizeof(*c)) : NULL;

	if (!c)
		return;
	*c = (struct limit_change){ .work = { run_limit_change, limit_change_ran },
				    .machine = u->machine,
				    .ring_size = u->o.settings->ring_size,
				    .rings_max = u->o.settings->rings_max };
	workqueue_submit(u->o.capture_queue, &c->work);
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
