/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/overhead.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

enum {
	WINDOW = 10, /* seconds, and samples */
	MILLION = 1000000,
	NAMED_MAX = 4, /* targets, in a text */
};

struct sample {
	uint64_t time, cpu; /* ns */
};

struct overhead {
	struct overhead_options o;
	struct event *tick;
	struct sample samples[WINDOW + 1]; /* oldest first */
	size_t n_samples;
	uint64_t share;
};

static double percent(uint64_t share)
{
	return (double)share * 100 / MILLION;
}

static void measure(struct overhead *o)
{
	const struct sample now = { now_ns(CLOCK_MONOTONIC), workqueue_cpu_ns(o->o.capture_queue) +
								 workqueue_cpu_ns(o->o.spool_queue) +
								 workqueue_cpu_ns(o->o.record_queue) };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t time, cpu;

	if (o->n_samples == ELEMENTS(o->samples))
		memmove(o->samples, o->samples + 1, --o->n_samples * sizeof(*o->samples));
	o->samples[o->n_samples++] = now;
	time = (now.time - o->samples[0].time) * (uint64_t)MAX(cpus, 1l);
	cpu = now.cpu - o->samples[0].cpu;
	/* A share over less than two intervals is not meaningful. */
	o->share = o->n_samples < 3 || time == 0 ? 0 : (uint64_t)((double)cpu / (double)time * MILLION);
}

static void set_held(struct overhead *o, struct target *t, bool held)
{
	t->held = held;
	t->held_ns = now_ns(CLOCK_MONOTONIC);
	if (pause_one(&o->o.pausing, t, held || o->o.paused(o->o.data)) < 0) {
		t->held = !held;
		log_warning("cannot %s process %d: out of memory", held ? "pause" : "continue", (int)t->pid);
	}
	if (!t->held)
		o->o.continued(o->o.data, t);
}

void overhead_forget(struct overhead *o, struct target *t)
{
	if (o && t->held)
		set_held(o, t, false);
}

static bool may_hold(const struct target *t)
{
	const struct capture_ops *ops = t->ring.source->ops;
	bool records = t->ring.state == RING_ARMED || t->ring.state == RING_FROZEN;

	return !t->held && records && ops->pause && (!ops->pausable || ops->pausable(t->ring.source));
}

/* Pauses the target that costs most; of several with equal cost, the newest. */
static void pause_costliest(struct overhead *o)
{
	struct target *t, *most = NULL;

	TAILQ_FOREACH (t, target_list_all(o->o.pausing.targets), link)
		if (may_hold(t) && (!most || t->cost_ns >= most->cost_ns))
			most = t;
	if (!most)
		return;
	log_warning("recording takes %.2f %% of the machine's processor time, more than overhead-max, %.2f %%: paused "
		    "process %d (%s), which costs most",
		    percent(o->share), percent(o->o.settings->overhead_max), (int)most->pid, esc(most->name));
	set_held(o, most, true);
}

/* Continues the target that has been paused longest, if for a whole window; all: every paused target. */
static void continue_paused(struct overhead *o, bool all)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	struct target *t, *oldest = NULL;

	TAILQ_FOREACH (t, target_list_all(o->o.pausing.targets), link) {
		if (t->held && all)
			set_held(o, t, false);
		if (t->held && (!oldest || t->held_ns < oldest->held_ns))
			oldest = t;
	}
	if (!oldest || now - oldest->held_ns < WINDOW * 1000000000ull)
		return;
	log_notice("recording takes %.2f %% of the machine's processor time: process %d (%s) is recorded again",
		   percent(o->share), (int)oldest->pid, esc(oldest->name));
	set_held(o, oldest, false);
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
	uint64_t most;
	struct overhead *o = data;
	struct target *t;

	measure(o);
	most = o->o.settings->overhead_max;
	if (most && o->share > most)
		pause_costliest(o);
	else if (!most || o->share <= most / 2)
		continue_paused(o, !most);
	/* The cost decays, so that recent cost counts most. */
	TAILQ_FOREACH (t, target_list_all(o->o.pausing.targets), link)
		t->cost_ns -= t->cost_ns / WINDOW;
	if (TAILQ_EMPTY(target_list_all(o->o.pausing.targets))) {
		event_del(o->tick);
		o->n_samples = 0;
		o->share = 0;
	}
}

int overhead_new(const struct overhead_options *options, struct overhead **ret)
{
	struct overhead *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->o = *options;
	o->tick = event_new(options->base, -1, EV_PERSIST, on_tick, o);
	if (!o->tick) {
		free(o);
		return -ENOMEM;
	}
	*ret = o;
	return 0;
}

struct overhead *overhead_free(struct overhead *o)
{
	if (!o)
		return NULL;
	event_free(o->tick);
	free(o);
	return NULL;
}

void overhead_begin(struct overhead *o)
{
	const struct timeval second = { 1, 0 };

	if (!o || event_pending(o->tick, EV_TIMEOUT, NULL))
		return;
	measure(o);
	event_add(o->tick, &second);
}

uint64_t overhead_share(const struct overhead *o)
{
	return o->share;
}

void overhead_trouble(const struct overhead *o, struct buf *ret)
{
	const struct target *t;
	unsigned n = 0;

	TAILQ_FOREACH (t, target_list_all(o->o.pausing.targets), link)
		if (t->held && ++n <= NAMED_MAX)
			buf_printf(ret, "%s %d (%s)",
				   n > 1 ? "," : "overhead-max: paused, since recording took too much:", (int)t->pid,
				   t->name);
	if (n > NAMED_MAX)
		buf_printf(ret, ", and %u more", n - NAMED_MAX);
	if (n)
		buf_u8(ret, 0);
}
