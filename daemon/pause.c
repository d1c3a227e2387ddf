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

static struct pause *pause_new(const struct pause_options *o, bool paused, size_t room)
{
	struct pause *p = calloc(1, sizeof(*p) + room * sizeof(p->targets[0]));

	if (p)
		*p = (struct pause){ .work = { run_pause, pause_ran },
				     .paused = paused,
				     .machine = trace_units_machine(o->units) };
	return p;
}

int pause_all(const struct pause_options *o, bool paused, void (*done)(void *data), void *data)
{
	struct target *t;
	struct pause *p;
	size_t n = 0;

	TAILQ_FOREACH (t, target_list_all(o->targets), link)
		n++;
	p = pause_new(o, paused, n);
	if (!p)
		return -ENOMEM;
	TAILQ_FOREACH (t, target_list_all(o->targets), link)
		if (t->ring.state != RING_GONE)
			p->targets[p->n++] = target_ref(t);
	p->done = done;
	p->data = data;
	workqueue_submit_urgent(o->capture_queue, &p->work);
	return 0;
}

int pause_one(const struct pause_options *o, struct target *t)
{
	struct pause *p = pause_new(o, true, 1);

	if (!p)
		return -ENOMEM;
	p->targets[p->n++] = target_ref(t);
	workqueue_submit_urgent(o->capture_queue, &p->work);
	return 0;
}
