/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "daemon/decode/schedule.h"
#include "lib/base/hash.h"
#include "lib/base/util.h"

/* Of records that csightd writes for a thread that may have run on any CPU. */
#define NO_CPU (UINT32_MAX - 1)

/* The thread that ran on a CPU from a time until the next span of that CPU. */
struct schedule_span {
	uint32_t cpu, tid, pid;
	bool known; /* false: the CPU left the thread, and the next one is unknown */
	bool lost;  /* records were lost within the span or before it: other threads may have run */
	bool start; /* of tracing */
	uint64_t time;
	size_t order;
};

/* An interval of time in which records of some CPU were lost. */
struct lost_interval {
	uint64_t from, to;
	uint64_t latest; /* end of those up to this one */
};

struct task_event {
	uint32_t tid;
	uint64_t time;
	bool ended;
};

struct thread_pause {
	uint32_t tid;
	struct schedule_pause interval;
};

struct schedule {
	struct schedule_span *spans, *starts;
	size_t n_spans, n_starts;
	struct task_event *task_events;
	size_t n_task_events;
	struct thread_pause *pauses; /* by thread, then in order */
	size_t n_pauses;
	struct schedule_run *untraced; /* runs on CPUs without a trace unit; likewise */
	size_t n_untraced;
	struct lost_interval *lost; /* of all CPUs, by their beginning */
	size_t n_lost;
	bool has_switches;
	uint64_t first; /* time of the first record; what ran before is unknown */
};

static int compare_spans(const void *left, const void *right)
{
	const struct schedule_span *a = left, *b = right;

	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static int compare_task_events(const void *left, const void *right)
{
	const struct task_event *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->time > b->time) - (a->time < b->time);
}

static void sort_spans(struct schedule_span *list, size_t n)
{
	if (n)
		qsort(list, n, sizeof(*list), compare_spans);
}

static int compare_runs(const void *left, const void *right)
{
	const struct pd_run *a = *(const struct pd_run *const *)left, *b = *(const struct pd_run *const *)right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a > b) - (a < b);
}

static int compare_times(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* Returns the first time of a sorted list that is not earlier than `from`, or UINT64_MAX. */
static uint64_t first_time(const uint64_t *times, size_t n, uint64_t from)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (times[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n ? times[low] : UINT64_MAX;
}

/* Returns the end of a span; UINT64_MAX if it is the last one of its CPU. */
static uint64_t span_end(const struct schedule *sched, size_t i)
{
	return i + 1 < sched->n_spans && sched->spans[i + 1].cpu == sched->spans[i].cpu ? sched->spans[i + 1].time
											: UINT64_MAX;
}

static void add_record(struct schedule *sched, const struct pd_run *run, size_t order)
{
	struct schedule_span s = { .cpu = run->cpu,
				   .tid = run->tid,
				   .pid = run->pid,
				   .known = run->kind == PD_RUN_IN || run->kind == PD_RUN_START,
				   .lost = run->kind == PD_RUN_LOST,
				   .start = run->kind == PD_RUN_START,
				   .time = run->time,
				   .order = order };

	if (s.start)
		sched->starts[sched->n_starts++] = s;
	/* Without records of switches, it does not show how long the thread ran. */
	if (s.start && !sched->has_switches)
		return;
	sched->spans[sched->n_spans++] = s;
	if (!s.lost)
		sched->first = MIN(sched->first, s.time);
}

/*
 * A start of tracing shows which thread runs, if the next switch there does, too. Earlier versions recorded the thread
 * that ran when tracing ended.
 */
static void confirm_starts(struct schedule *sched)
{
	const struct schedule_span *next = NULL; /* that is no start */

	for (size_t i = sched->n_spans; i-- > 0;) {
		struct schedule_span *s = &sched->spans[i];

		if (s->start)
			s->known =
			    s->tid && s->tid != UINT32_MAX && (!next || next->cpu != s->cpu || next->tid == s->tid);
		else
			next = s;
	}
}

/* Removes starts that show nothing, and switches to a thread that a start has shown before. */
static void settle_starts(struct schedule *sched)
{
	size_t n = 0;

	confirm_starts(sched);
	for (size_t i = 0; i < sched->n_spans; i++) {
		const struct schedule_span *s = &sched->spans[i], *before = n ? &sched->spans[n - 1] : NULL;
		bool repeats = before && s->known && before->known && s->cpu == before->cpu && s->tid == before->tid &&
			       (s->start || before->start);

		if (!repeats && (!s->start || s->known))
			sched->spans[n++] = *s;
	}
	sched->n_spans = n;
}

/* csightd records a switch on no CPU for each thread where any switch may have been lost. */
static int mark_lost(struct schedule *sched, const struct pd_contents *c)
{
	_cleanup_free_ uint64_t *anywhere = calloc(c->n_runs + 1, sizeof(*anywhere));
	size_t n = 0;

	if (!anywhere)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_runs; i++)
		if (c->runs[i].cpu == NO_CPU)
			anywhere[n++] = c->runs[i].time;
	if (n)
		qsort(anywhere, n, sizeof(*anywhere), compare_times);
	for (size_t i = 0; i < sched->n_spans; i++) {
		uint64_t end = span_end(sched, i);

		/* No thread runs there. */
		if (sched->spans[i].cpu == NO_CPU)
			continue;
		if (first_time(anywhere, n, sched->spans[i].time) < end ||
		    (end != UINT64_MAX && c->runs[sched->spans[i + 1].order].kind == PD_RUN_LOST))
			sched->spans[i].lost = true;
		/* A start of tracing shows the thread of that moment, and no switch after it. */
		if (i && sched->spans[i].start && sched->spans[i - 1].lost &&
		    sched->spans[i - 1].cpu == sched->spans[i].cpu)
			sched->spans[i].lost = true;
	}
	return 0;
}

static int compare_intervals(const void *left, const void *right)
{
	const struct lost_interval *a = left, *b = right;

	return (a->from > b->from) - (a->from < b->from);
}

static int list_lost(struct schedule *sched)
{
	struct lost_interval *list = sched->lost = calloc(sched->n_spans + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < sched->n_spans; i++)
		if (sched->spans[i].lost)
			list[sched->n_lost++] = (struct lost_interval){ sched->spans[i].time, span_end(sched, i), 0 };
	if (sched->n_lost)
		qsort(list, sched->n_lost, sizeof(*list), compare_intervals);
	for (size_t i = 0; i < sched->n_lost; i++)
		list[i].latest = MAX(list[i].to, i ? list[i - 1].latest : 0);
	return 0;
}

bool schedule_lost_between(const struct schedule *sched, uint64_t from, uint64_t to)
{
	size_t low = 0, high = sched->n_lost;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sched->lost[middle].from <= to)
			low = middle + 1;
		else
			high = middle;
	}
	return low && sched->lost[low - 1].latest >= from;
}

/* Lists the CPUs that have a trace unit; none if the file says nothing of trace units. */
static int list_units(const struct pd_contents *c, struct hash *ret)
{
	uint32_t *index;
	int rc = 0;

	for (size_t i = 0; i < c->n_cpus && rc >= 0; i++)
		rc = hash_find(ret, c->cpus[i].cpu, 0, &index);
	return rc < 0 ? rc : 0;
}

static bool lacks_unit(const struct hash *units, uint32_t cpu)
{
	return units->n && cpu < NO_CPU && !hash_get(units, cpu, 0);
}

static bool any_lacks_unit(const struct hash *units, const struct pd_run *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (lacks_unit(units, list[i]->cpu))
			return true;
	return false;
}

/*
 * Adds the time from one switch of a thread to its next one, if the thread ran on such a CPU, or may have, as records
 * were lost. Either may be NULL.
 */
static void add_untraced(struct schedule *sched, const struct hash *units, const struct pd_run *before,
			 const struct pd_run *next)
{
	const struct pd_run *any = before ? before : next;
	uint64_t from = before ? before->time : 0, to = next ? next->time : UINT64_MAX - 1;
	bool enters = before && before->kind == PD_RUN_IN, leaves = next && next->kind != PD_RUN_IN,
	     begins = enters && lacks_unit(units, before->cpu), ends = leaves && lacks_unit(units, next->cpu),
	     stays = enters && leaves && before->cpu == next->cpu,
	     unknown = (before && before->cpu == NO_CPU) || (next && next->cpu == NO_CPU) ||
		       schedule_lost_between(sched, from, to);

	if (begins || ends || (!stays && unknown))
		sched->untraced[sched->n_untraced++] = (struct schedule_run){ any->tid, from, to };
}

/*
 * Finds the intervals from a switch out to the next switch in of the same thread, or to the end of the trace, and those
 * in which it ran on a CPU without a trace unit. No pauses in which records of some CPU were lost, since the thread may
 * have run there.
 */
static int find_pauses(struct schedule *sched, const struct pd_contents *c)
{
	const struct pd_run **list = calloc(c->n_runs + 1, sizeof(*list));
	_cleanup_(hash_done) struct hash units = { 0 };
	bool untraced;
	size_t n = 0;

	sched->pauses = calloc(c->n_runs + 1, sizeof(*sched->pauses));
	sched->untraced = calloc(2 * c->n_runs + 1, sizeof(*sched->untraced));
	if (!list || !sched->pauses || !sched->untraced || list_units(c, &units) < 0) {
		free((void *)list);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->n_runs; i++)
		if (c->runs[i].kind <= PD_RUN_PREEMPTED)
			list[n++] = &c->runs[i];
	if (n)
		qsort((void *)list, n, sizeof(*list), compare_runs);
	untraced = any_lacks_unit(&units, list, n);
	for (size_t i = 0; i < n; i++) {
		const struct pd_run *out = list[i],
				    *next = i + 1 < n && list[i + 1]->tid == out->tid ? list[i + 1] : NULL;
		uint64_t until = next ? next->time : UINT64_MAX - 1;

		if (untraced && (i == 0 || list[i - 1]->tid != out->tid))
			add_untraced(sched, &units, NULL, out);
		if (untraced)
			add_untraced(sched, &units, out, next);
		if (out->kind != PD_RUN_IN && (!next || next->kind == PD_RUN_IN) &&
		    !schedule_lost_between(sched, out->time, until))
			sched->pauses[sched->n_pauses++] =
			    (struct thread_pause){ out->tid, { out->time, until, out->kind == PD_RUN_PREEMPTED } };
	}
	free((void *)list);
	return 0;
}

int schedule_new(const struct pd_contents *c, struct schedule **ret)
{
	struct schedule *sched = calloc(1, sizeof(*sched));

	if (!sched)
		return -ENOMEM;
	sched->spans = calloc(c->n_runs + 1, sizeof(*sched->spans));
	sched->starts = calloc(c->n_runs + 1, sizeof(*sched->starts));
	sched->task_events = calloc(c->n_tasks + 1, sizeof(*sched->task_events));
	if (!sched->spans || !sched->starts || !sched->task_events) {
		schedule_free(sched);
		return -ENOMEM;
	}
	sched->first = UINT64_MAX;
	for (size_t i = 0; i < c->n_runs; i++)
		sched->has_switches |= c->runs[i].kind <= PD_RUN_PREEMPTED;
	for (size_t i = 0; i < c->n_runs; i++)
		add_record(sched, &c->runs[i], i);
	sort_spans(sched->spans, sched->n_spans);
	sort_spans(sched->starts, sched->n_starts);
	settle_starts(sched);
	if (mark_lost(sched, c) < 0 || list_lost(sched) < 0 || find_pauses(sched, c) < 0) {
		schedule_free(sched);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->n_tasks; i++)
		if (c->tasks[i].time)
			sched->task_events[sched->n_task_events++] =
			    (struct task_event){ c->tasks[i].tid, c->tasks[i].time, c->tasks[i].exit };
	if (sched->n_task_events)
		qsort(sched->task_events, sched->n_task_events, sizeof(*sched->task_events), compare_task_events);
	*ret = sched;
	return 0;
}

struct schedule *schedule_free(struct schedule *sched)
{
	if (!sched)
		return NULL;
	free(sched->spans);
	free(sched->starts);
	free(sched->task_events);
	free(sched->pauses);
	free(sched->untraced);
	free(sched->lost);
	free(sched);
	return NULL;
}

/* Returns the number of spans in a sorted list that begin no later than a time on a CPU. */
static size_t count_up_to(const struct schedule_span *list, size_t n, uint32_t cpu, uint64_t time)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].cpu < cpu || (list[middle].cpu == cpu && list[middle].time <= time))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool schedule_only_thread(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid,
			  uint32_t *ret_pid)
{
	size_t n = count_up_to(sched->spans, sched->n_spans, cpu, from);
	const struct schedule_span *s = n ? &sched->spans[n - 1] : NULL;

	if (!s || s->cpu != cpu || !s->known || s->lost)
		return false;
	for (size_t i = n; i < sched->n_spans && sched->spans[i].cpu == cpu && sched->spans[i].time <= to; i++)
		if (!sched->spans[i].known || sched->spans[i].lost || sched->spans[i].tid != s->tid)
			return false;
	*ret_tid = s->tid;
	*ret_pid = s->pid;
	return true;
}

bool schedule_only_run(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid,
		       uint32_t *ret_pid)
{
	size_t n = count_up_to(sched->spans, sched->n_spans, cpu, from);
	const struct schedule_span *only = NULL;

	if (from < sched->first)
		return false;
	for (size_t i = n && sched->spans[n - 1].cpu == cpu ? n - 1 : n;
	     i < sched->n_spans && sched->spans[i].cpu == cpu && sched->spans[i].time <= to; i++) {
		const struct schedule_span *s = &sched->spans[i];

		/* One that leaves the CPU within the interval was there before, where no record shows since when. */
		if (s->lost || (only && s->tid != only->tid))
			return false;
		if (s->known || s->time > from)
			only = s;
	}
	if (!only)
		return false;
	*ret_tid = only->tid;
	*ret_pid = only->pid;
	return true;
}

/* Returns the index of the first fork or exit of a thread, or of a later one, from a time on. */
static size_t find_task_event(const struct schedule *sched, uint32_t tid, uint64_t from)
{
	size_t low = 0, high = sched->n_task_events;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sched->task_events[middle].tid < tid ||
		    (sched->task_events[middle].tid == tid && sched->task_events[middle].time < from))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool schedule_reused(const struct schedule *sched, uint32_t tid, uint64_t from, uint64_t to)
{
	bool ended = false;

	for (size_t i = find_task_event(sched, tid, from); i < sched->n_task_events; i++) {
		const struct task_event *e = &sched->task_events[i];

		if (e->tid != tid || e->time > to)
			break;
		if (ended && !e->ended)
			return true;
		ended |= e->ended;
	}
	return false;
}

/*
 * Narrows an interval to the lifetime of the thread: by its fork or exit, if exactly one of them lies within. With
 * several, the thread ID was reused.
 */
static void narrow_to_lifetime(const struct schedule *sched, uint32_t tid, uint64_t *from, uint64_t *to)
{
	size_t low = find_task_event(sched, tid, *from);
	const struct task_event *found;

	if (low == sched->n_task_events || sched->task_events[low].tid != tid || sched->task_events[low].time > *to)
		return;
	found = &sched->task_events[low];
	if (low + 1 < sched->n_task_events && found[1].tid == tid && found[1].time <= *to)
		return;
	if (found->ended)
		*to = found->time;
	else
		*from = found->time;
}

void schedule_narrow(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t *from, uint64_t *to)
{
	size_t i = count_up_to(sched->spans, sched->n_spans, cpu, *from), found = SIZE_MAX;

	narrow_to_lifetime(sched, tid, from, to);
	if (i && sched->spans[i - 1].cpu == cpu)
		i--;
	for (; i < sched->n_spans && sched->spans[i].cpu == cpu && sched->spans[i].time <= *to; i++) {
		const struct schedule_span *s = &sched->spans[i];

		if (s->lost)
			return;
		if (!s->known || s->tid != tid)
			continue;
		/* The thread ran there twice: the interval is ambiguous. */
		if (found != SIZE_MAX)
			return;
		found = i;
	}
	if (found == SIZE_MAX)
		return;
	*from = MAX(*from, sched->spans[found].time);
	*to = MIN(*to, span_end(sched, found));
}

bool schedule_first(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to,
		    struct schedule_run *ret)
{
	size_t i = count_up_to(sched->spans, sched->n_spans, cpu, from);

	if (i && sched->spans[i - 1].cpu == cpu)
		i--;
	for (; i < sched->n_spans && sched->spans[i].cpu == cpu && sched->spans[i].time <= to; i++)
		if (sched->spans[i].known && sched->spans[i].tid == tid) {
			*ret = (struct schedule_run){ tid, sched->spans[i].time,
						      sched->spans[i].lost ? 0 : span_end(sched, i) };
			return true;
		}
	return false;
}

bool schedule_elsewhere(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to)
{
	size_t begin = 0;

	while (begin < sched->n_spans) {
		uint32_t other = sched->spans[begin].cpu;
		size_t end = count_up_to(sched->spans, sched->n_spans, other, UINT64_MAX);
		size_t i = count_up_to(sched->spans, sched->n_spans, other, from);

		for (i = MAX(i, begin + 1) - 1; other != cpu && other != NO_CPU && i < end && sched->spans[i].time < to;
		     i++) {
			const struct schedule_span *s = &sched->spans[i];

			if ((s->lost || (s->known && s->tid == tid)) && span_end(sched, i) > from)
				return true;
		}
		begin = end;
	}
	return false;
}

bool schedule_next(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, size_t *at,
		   struct schedule_run *ret)
{
	size_t i = *at ? *at : count_up_to(sched->spans, sched->n_spans, cpu, from);

	if (!*at && i && sched->spans[i - 1].cpu == cpu)
		i--;
	for (; i < sched->n_spans && sched->spans[i].cpu == cpu && sched->spans[i].time <= to; i++) {
		const struct schedule_span *s = &sched->spans[i];

		if (!s->known && !s->lost)
			continue;
		*ret = (struct schedule_run){ s->lost ? UINT32_MAX : s->tid, s->time, span_end(sched, i) };
		*at = i + 1;
		return true;
	}
	return false;
}

uint64_t schedule_trace_start(const struct schedule *sched, uint32_t cpu, uint64_t after, uint64_t until)
{
	size_t n = count_up_to(sched->starts, sched->n_starts, cpu, until);
	const struct schedule_span *s = n ? &sched->starts[n - 1] : NULL;

	return s && s->cpu == cpu && s->time > after ? s->time : 0;
}

bool schedule_has_switches(const struct schedule *sched)
{
	return sched->has_switches;
}

bool schedule_pause(const struct schedule *sched, uint32_t tid, uint64_t from, uint64_t to, struct schedule_pause *ret)
{
	size_t low = 0, high = sched->n_pauses;

	/* The first pause that ends after `from`. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct thread_pause *p = &sched->pauses[middle];

		if (p->tid < tid || (p->tid == tid && p->interval.to <= from))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == sched->n_pauses || sched->pauses[low].tid != tid || sched->pauses[low].interval.from >= to)
		return false;
	*ret = sched->pauses[low].interval;
	return true;
}

bool schedule_untraced(const struct schedule *sched, uint32_t tid, uint64_t from, uint64_t to)
{
	size_t low = 0, high = sched->n_untraced;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct schedule_run *r = &sched->untraced[middle];

		if (r->tid < tid || (r->tid == tid && r->to <= from))
			low = middle + 1;
		else
			high = middle;
	}
	return low < sched->n_untraced && sched->untraced[low].tid == tid && sched->untraced[low].from < to;
}
