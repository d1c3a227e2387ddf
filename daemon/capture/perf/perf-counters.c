/* SPDX-License-Identifier: MIT */
/* The counters of a target: its options, what its user may have, and their samples in copies. */
#include "config.h"

#include <string.h>

#include "daemon/capture/perf/perf-internal.h"
#include "lib/base/util.h"

int perf_counters_open(struct perf_target *s, struct reason *why)
{
	const struct pmu_counters_scope scope = { .of = s->grid.of,
						  .pid = s->pid,
						  .plan = perf_target_plan(s),
						  .kernel = s->options.kernel,
						  .most_events = s->counters.n_events + perf_share_events(s) };
	uint64_t rings = pmu_counters_memory(&s->counters, scope.plan->n_cpus), most = perf_share_rings(s),
		 left = s->m->settings.memory - MIN(s->m->settings.memory, s->m->memory);
	bool new;
	int rc;

	if (!s->counters.rings && rings > MIN(left, most - MIN(most, perf_share_memory(s))))
		return reason_set(why, -ENOSPC, "counters: their rings need %llu KiB more than its user may have",
				  (unsigned long long)rings >> 10);
	new = !s->counters.rings;
	rc = pmu_counters_open(&s->counters, &scope, why);
	s->m->memory += new && s->counters.rings ? rings : 0;
	return rc;
}

void perf_counters_close(struct perf_target *s)
{
	s->m->memory -= pmu_counters_memory(&s->counters, s->counters.n_rings);
	pmu_counters_close(&s->counters, s->grid.stuck);
}

void perf_counters_extend(struct perf_target *s)
{
	if (s->armed && s->counters.n)
		perf_counters_open(s, NULL);
}

static int copy_counter_names(const struct pmu_counters *from, struct capture_copy *c)
{
	c->counters = calloc(from->n + 1, sizeof(*c->counters));
	if (!c->counters)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++) {
		const struct pmu_counter *counter = &from->list[i];
		/* Frequencies are no samples of an event that counts. */
		const struct pd_event event = { .name = strdup(counter->name),
						.type = counter->frequency ? PERF_TYPE_SOFTWARE : counter->type,
						.config = counter->frequency ? PERF_COUNT_SW_DUMMY : counter->config,
						.period = counter->period,
						.rate = PMU_COUNTERS_RATE };

		if (!event.name)
			return -ENOMEM;
		c->counters[c->n_counters++] = event;
	}
	return 0;
}

int perf_counters_copy(struct perf_target *s, struct capture_positions *p, struct capture_copy *c)
{
	struct pmu_counters *counters = &s->counters;
	int rc = counters->n ? copy_counter_names(counters, c) : 0;

	for (size_t n = 0; rc == 0 && n < counters->n_rings && (!p || n < p->n); n++) {
		uint64_t all = 0;

		rc = pmu_counters_copy(counters, n, p ? &p->list[n].counted : &all, &c->samples);
	}
	for (uint32_t i = 0; rc == 0 && i < counters->n; i++) {
		unsigned share = counters->list[i].frequency ? 100 : pmu_counters_share(counters, i);

		if (share < 95)
			capture_note_missing(c, "%s was counted for %u %% of the time: the CPUs have too few counters",
					     counters->list[i].name, share);
	}
	return rc;
}

void perf_counters_report_missing(const struct perf_target *s, struct buf *b)
{
	static const char failed[] = "a CPU is not counted: its events could not be opened",
			  lost[] = "some samples of counters were lost: there were too many, or they came while others "
				   "were read";

	for (uint32_t i = 0; i < s->counters.n; i++) {
		unsigned refused = pmu_counters_refused(&s->counters, i);

		if (!refused)
			continue;
		buf_printf(b, "%u of the CPUs do not count %s", refused, s->counters.list[i].name);
		buf_u8(b, 0);
	}
	if (s->counters.failed)
		buf_add(b, failed, sizeof(failed));
	if (s->counters.lost)
		buf_add(b, lost, sizeof(lost));
}
