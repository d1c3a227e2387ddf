#include <stdlib.h>

#include "daemon/decode/runs.h"
#include "lib/base/util.h"

/* From its time on, until the next one of that CPU. */
struct span {
	uint32_t cpu, tid, pid;
	bool known;
	bool lost; /* somebody else may have come within it */
	uint64_t time;
	size_t order;
};

struct life {
	uint32_t tid;
	uint64_t time;
	bool ended;
};

struct runs {
	struct span *spans, *starts;
	size_t n_spans, n_starts;
	struct life *lives;
	size_t n_lives;
};

static int compare_spans(const void *left, const void *right)
{
	const struct span *a = left, *b = right;

	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static int compare_lives(const void *left, const void *right)
{
	const struct life *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->time > b->time) - (a->time < b->time);
}

static void sort(struct span *list, size_t n)
{
	if (n)
		qsort(list, n, sizeof(*list), compare_spans);
}

static void add_run(struct runs *r, const struct pd_run *run, size_t order)
{
	struct span s = { run->cpu, run->tid, run->pid, run->kind == PD_RUN_IN, false, run->time, order };

	if (run->kind == PD_RUN_START)
		r->starts[r->n_starts++] = s;
	else
		r->spans[r->n_spans++] = s;
}

static void forget_lost(struct runs *r, const struct pd_contents *c)
{
	for (size_t i = 0; i + 1 < r->n_spans; i++)
		if (r->spans[i].cpu == r->spans[i + 1].cpu && c->runs[r->spans[i + 1].order].kind == PD_RUN_LOST)
			r->spans[i].lost = true;
}

int runs_new(const struct pd_contents *c, struct runs **ret)
{
	struct runs *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->spans = calloc(c->n_runs + 1, sizeof(*r->spans));
	r->starts = calloc(c->n_runs + 1, sizeof(*r->starts));
	r->lives = calloc(c->n_tasks + 1, sizeof(*r->lives));
	if (!r->spans || !r->starts || !r->lives) {
		runs_free(r);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->n_runs; i++)
		add_run(r, &c->runs[i], i);
	sort(r->spans, r->n_spans);
	sort(r->starts, r->n_starts);
	forget_lost(r, c);
	for (size_t i = 0; i < c->n_tasks; i++)
		if (c->tasks[i].time)
			r->lives[r->n_lives++] = (struct life){ c->tasks[i].tid, c->tasks[i].time, c->tasks[i].exit };
	if (r->n_lives)
		qsort(r->lives, r->n_lives, sizeof(*r->lives), compare_lives);
	*ret = r;
	return 0;
}

struct runs *runs_free(struct runs *r)
{
	if (!r)
		return NULL;
	free(r->spans);
	free(r->starts);
	free(r->lives);
	free(r);
	return NULL;
}

/* How many of a list come before a time of a CPU, or at it. */
static size_t count_until(const struct span *list, size_t n, uint32_t cpu, uint64_t time)
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
static uint64_t end_of(const struct runs *r, size_t i)
{
	return i + 1 < r->n_spans && r->spans[i + 1].cpu == r->spans[i].cpu ? r->spans[i + 1].time : UINT64_MAX;
}

bool runs_alone(const struct runs *r, uint32_t cpu, uint64_t from, uint64_t to, uint32_t *ret_tid, uint32_t *ret_pid)
{
	size_t n = count_until(r->spans, r->n_spans, cpu, from);
	const struct span *s = n ? &r->spans[n - 1] : NULL;

	if (!s || s->cpu != cpu || !s->known || s->lost)
		return false;
	for (size_t i = n; i < r->n_spans && r->spans[i].cpu == cpu && r->spans[i].time <= to; i++)
		if (!r->spans[i].known || r->spans[i].lost || r->spans[i].tid != s->tid)
			return false;
	*ret_tid = s->tid;
	*ret_pid = s->pid;
	return true;
}

/* Birth and death bound what is between, where one of them alone lies there: else the number was used again. */
static void narrow_by_life(const struct runs *r, uint32_t tid, uint64_t *from, uint64_t *to)
{
	const struct life *found = NULL;
	size_t low = 0, high = r->n_lives;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->lives[middle].tid < tid || (r->lives[middle].tid == tid && r->lives[middle].time < *from))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == r->n_lives || r->lives[low].tid != tid || r->lives[low].time > *to)
		return;
	found = &r->lives[low];
	if (low + 1 < r->n_lives && found[1].tid == tid && found[1].time <= *to)
		return;
	if (found->ended)
		*to = found->time;
	else
		*from = found->time;
}

void runs_narrow(const struct runs *r, uint32_t cpu, uint32_t tid, uint64_t *from, uint64_t *to)
{
	size_t i = count_until(r->spans, r->n_spans, cpu, *from), found = SIZE_MAX;

	narrow_by_life(r, tid, from, to);
	if (i && r->spans[i - 1].cpu == cpu)
		i--;
	for (; i < r->n_spans && r->spans[i].cpu == cpu && r->spans[i].time <= *to; i++) {
		const struct span *s = &r->spans[i];

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
	*from = MAX(*from, r->spans[found].time);
	*to = MIN(*to, end_of(r, found));
}

bool runs_first(const struct runs *r, uint32_t cpu, uint32_t tid, uint64_t from, uint64_t to, uint64_t *ret_from,
		uint64_t *ret_to)
{
	size_t i = count_until(r->spans, r->n_spans, cpu, from);

	if (i && r->spans[i - 1].cpu == cpu)
		i--;
	for (; i < r->n_spans && r->spans[i].cpu == cpu && r->spans[i].time <= to; i++)
		if (r->spans[i].known && r->spans[i].tid == tid) {
			*ret_from = r->spans[i].time;
			*ret_to = end_of(r, i);
			return true;
		}
	return false;
}

uint64_t runs_begun(const struct runs *r, uint32_t cpu, uint64_t after, uint64_t until)
{
	size_t n = count_until(r->starts, r->n_starts, cpu, until);
	const struct span *s = n ? &r->starts[n - 1] : NULL;

	return s && s->cpu == cpu && s->time > after ? s->time : 0;
}

struct interval {
	uint32_t tid;
	uint64_t from, to;
};

struct intervals {
	size_t n;
	struct interval list[];
};

static int compare_intervals(const void *left, const void *right)
{
	const struct interval *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->from > b->from) - (a->from < b->from);
}

int intervals_new(json_object *list, struct intervals **ret)
{
	size_t n = list ? json_object_array_length(list) : 0;
	struct intervals *s = calloc(1, sizeof(*s) + n * sizeof(s->list[0]));
	uint64_t tid;

	if (!s)
		return -ENOMEM;
	for (; s->n < n; s->n++) {
		json_object *o = json_object_array_get_idx(list, s->n);
		struct interval *i = &s->list[s->n];

		if (!json_object_is_type(o, json_type_object) || json_get_u64(o, "tid", &tid) < 0 || tid > UINT32_MAX ||
		    json_get_u64(o, "from", &i->from) < 0 || json_get_u64(o, "to", &i->to) < 0) {
			free(s);
			return -EBADMSG;
		}
		i->tid = (uint32_t)tid;
	}
	if (n)
		qsort(s->list, n, sizeof(s->list[0]), compare_intervals);
	*ret = s;
	return 0;
}

struct intervals *intervals_free(struct intervals *s)
{
	free(s);
	return NULL;
}

bool intervals_hold(const struct intervals *s, uint32_t tid, uint64_t from, uint64_t to)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->list[middle].tid < tid || (s->list[middle].tid == tid && s->list[middle].from <= from))
			low = middle + 1;
		else
			high = middle;
	}
	/* The last that begins before: intervals of a thread do not overlap. */
	return low && s->list[low - 1].tid == tid && from <= to && to <= s->list[low - 1].to;
}
