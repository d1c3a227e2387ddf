/* SPDX-License-Identifier: MIT */
/* The condition period: a timer of csightd. */
#include "config.h"

#include "daemon/trigger/trigger-private.h"

/* Returns the index of the condition, or the number of conditions. */
static unsigned find_period(const struct trigger_spec *s)
{
	unsigned i = 0;

	while (i < trigger_spec_count(s) && s->conditions[i].event != TRIGGER_PERIOD)
		i++;
	return i;
}

static void on_period(evutil_socket_t fd, short what, void *data)
{
	struct trigger *t = data;
	struct trigger_hit hit = { .how = EMU_HIT_REACHED,
				   .condition = find_period(&t->spec),
				   .monotonic_ns = now_ns(CLOCK_MONOTONIC) };

	t->hits++;
	t->condition_hits[hit.condition]++;
	trigger_hit(t, &hit);
}

int trigger_period_start(struct trigger *t)
{
	unsigned i = find_period(&t->spec);
	uint64_t ns = i < trigger_spec_count(&t->spec) ? t->spec.conditions[i].number : 0;
	const struct timeval period = { (time_t)(ns / 1000000000), (suseconds_t)(ns % 1000000000 / 1000) };

	if (!ns)
		return 0;
	if (!t->period)
		t->period = event_new(t->all->o.base, -1, EV_PERSIST, on_period, t);
	return t->period && event_add(t->period, &period) == 0 ? 0 : -ENOMEM;
}

void trigger_period_stop(struct trigger *t)
{
	if (t->period)
		event_del(t->period);
}
