#include <stdlib.h>

#include "daemon/decode/schedule.h"
#include "lib/base/util.h"

/* From its time on, until the next one of that CPU. */
struct schedule_span {
	uint32_t cpu, tid, pid;
	bool known;
	bool lost; /* somebody else may have come within it */
	uint64_t time;
	size_t order;
};

struct task_event {
	uint32_t tid;
	uint64_t time;
	bool ended;
};

struct schedule {
	struct schedule_span *spans, *starts;
	size_t n_spans, n_starts;
	struct task_event *lives;
	size_t n_lives;
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

static int compare_lives(const void *left, const void *right)
{
	const struct task_event *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->time > b->time) - (a->time < b->time);
}

static void sort(struct schedule_span *list, size_t n)
{
	if (n)
		qsort(list, n, sizeof(*list), compare_spans);
}

static void add_run(struct schedule *sched, const struct pd_run *run, size_t order)
{
	struct schedule_span s = { run->cpu, run->tid, run->pid, run->kind == PD_RUN_IN, false, run->time, order };

	if (run->kind == PD_RUN_START)
		sched->starts[sched->n_starts++] = s;
	else
		sched->spans[sched->n_spans++] = s;
}

static void forget_lost(struct schedule *sched, const struct pd_contents *c)
{
	for (size_t i = 0; i + 1 < sched->n_spans; i++)
		if (sched->spans[i].cpu == sched->spans[i + 1].cpu &&
		    c->runs[sched->spans[i + 1].order].kind == PD_RUN_LOST)
			sched->spans[i].lost = true;
}

int schedule_new(const struct pd_contents *c, struct schedule **ret)
{
	struct schedule *sched = calloc(1, sizeof(*sched));

	if (!sched)
		return -ENOMEM;
	sched->spans = calloc(c->n_runs + 1, sizeof(*sched->spans));
	sched->starts = calloc(c->n_runs + 1, sizeof(*sched->starts));
	sched->lives = calloc(c->n_tasks + 1, sizeof(*sched->lives));
	if (!sched->spans || !sched->starts || !sched->lives) {
		schedule_free(sched);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->n_runs; i++)
		add_run(sched, &c->runs[i], i);
	sort(sched->spans, sched->n_spans);
	sort(sched->starts, sched->n_starts);
	forget_lost(sched, c);
	for (size_t i = 0; i < c->n_tasks; i++)
		if (c->tasks[i].time)
			sched->lives[sched->n_lives++] =
			    (struct task_event){ c->tasks[i].tid, c->tasks[i].time, c->tasks[i].exit };
	if (sched->n_lives)
		qsort(sched->lives, sched->n_lives, sizeof(*sched->lives), compare_lives);
	*ret = sched;
	return 0;
}

struct schedule *schedule_free(struct schedule *sched)
{
	if (!sched)
		return NULL;
	free(sched->spans);
	free(sched->starts);
	free(sched->lives);
	free(sched);
	return NULL;
}

/* How many of a list come before a time of a CPU, or at it. */
static size_t count_until(const struct schedule_span *list, size_t n, uint32_t cpu, uint64_t time)
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

/* When a span ends. */
static uint64_t end_of(const struct schedule *sched, size_t i)
{
	return i + 1 < sched->n_spans && sched->spans[i + 1].cpu == sched->spans[i].cpu ? sched->spans[i + 1].time
											: UINT64_MAX;
}

bool schedule_only_thread(const struct schedule *sched, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid,
			  uint32_t *ret_pid)
{
	size_t n = count_until(sched->spans, sched->n_spans, cpu, from);
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

/* Birth and death bound what is between, where one of them alone lies there: else the number was used again. */
static void narrow_by_life(const struct schedule *sched, uint32_t tid, uint64_t *from, uint64_t *to)
{
	const struct task_event *found = NULL;
	size_t low = 0, high = sched->n_lives;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sched->lives[middle].tid < tid ||
		    (sched->lives[middle].tid == tid && sched->lives[middle].time < *from))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == sched->n_lives || sched->lives[low].tid != tid || sched->lives[low].time > *to)
		return;
	found = &sched->lives[low];
	if (low + 1 < sched->n_lives && found[1].tid == tid && found[1].time <= *to)
		return;
	if (found->ended)
		*to = found->time;
	else
		*from = found->time;
}

void schedule_narrow(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t *from, uint64_t *to)
{
	size_t i = count_until(sched->spans, sched->n_spans, cpu, *from), found = SIZE_MAX;

	narrow_by_life(sched, tid, from, to);
	if (i && sched->spans[i - 1].cpu == cpu)
		i--;
	for (; i < sched->n_spans && sched->spans[i].cpu == cpu && sched->spans[i].time <= *to; i++) {
		const struct schedule_span *s = &sched->spans[i];

		if (s->lost)
			return;
		if (!s->known || s->tid != tid)
			continue;
		/* It came twice: which time it was is not known. */
		if (found != SIZE_MAX)
			return;
		found = i;
	}
	if (found == SIZE_MAX)
		return;
	*from = MAX(*from, sched->spans[found].time);
	*to = MIN(*to, end_of(sched, found));
}

bool schedule_first(const struct schedule *sched, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to,
		    struct schedule_run *ret)
{
	size_t i = count_until(sched->spans, sched->n_spans, cpu, from);

	if (i && sched->spans[i - 1].cpu == cpu)
		i--;
	for (; i < sched->n_spans && sched->spans[i].cpu == cpu && sched->spans[i].time <= to; i++)
		if (sched->spans[i].known && sched->spans[i].tid == tid) {
			*ret = (struct schedule_run){ sched->spans[i].time, end_of(sched, i) };
			return true;
		}
	return false;
}

uint64_t schedule_trace_start(const struct schedule *sched, uint32_t cpu, uint64_t after, uint64_t until)
{
	size_t n = count_until(sched->starts, sched->n_starts, cpu, until);
	const struct schedule_span *s = n ? &sched->starts[n - 1] : NULL;

	return s && s->cpu == cpu && s->time > after ? s->time : 0;
}
