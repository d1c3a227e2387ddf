/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>

#include "daemon/pause.h"
#include "lib/base/util.h"

/* Targets that are stopped or started, and the machine of trace units, in one work of the capture thread. */
struct pause {
	struct work work;
	bool paused;
	struct perf_machine *machine; /* or NULL */
	void (*done)(void *data);     /* or NULL */
	void *data;
	size_t n;
	struct target *targets[];
};

static void run_pause(struct work *w)
{
	struct pause *p = container_of(w, struct pause, work);

	if (p->machine)
		perf_machine_pause(p->machine, p->paused);
	for (size_t n = 0; n < p->n; n++) {
		struct capture_source *source = p->targets[n]->ring.source;

		if (source->ops->pause)
			source->ops->pause(source, p->paused);
	}
}

static void pause_ran(struct work *w)
{
	struct pause *p = container_of(w, struct pause, work);

	for (size_t n = 0; n < p->n; n++)
		target_unref(p->targets[n]);
	if (p->done)
		p->done(p->data);
	free(p);
}

static struct pause *pause_new(bool paused, size_t room)
{
	struct pause *p = calloc(1, sizeof(*p) + room * sizeof(p->targets[0]));

	if (p)
		*p = (struct pause){ .work = { run_pause, pause_ran }, .paused = paused };
	return p;
}

int pause_all(const struct pause_options *o, bool paused, void (*done)(void *data), void *data)
{
	struct target *t;
	struct pause *p;
	size_t n = 0;

	TAILQ_FOREACH (t, target_list_all(o->targets), link)
		n++;
	p = pause_new(paused, n);
	if (!p)
		return -ENOMEM;
	p->machine = trace_units_machine(o->units);
	/* A target that overhead.c has paused stays paused. */
	TAILQ_FOREACH (t, target_list_all(o->targets), link)
		if (t->ring.state != RING_GONE && (paused || !t->held))
			p->targets[p->n++] = target_ref(t);
	p->done = done;
	p->data = data;
	workqueue_submit_urgent(o->capture_queue, &p->work);
	return 0;
}

int pause_one(const struct pause_options *o, struct target *t, bool paused)
{
	struct pause *p = pause_new(paused, 1);

	if (!p)
		return -ENOMEM;
	p->targets[p->n++] = target_ref(t);
	workqueue_submit_urgent(o->capture_queue, &p->work);
	return 0;
}
