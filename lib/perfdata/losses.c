/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/perfdata/losses.h"

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* The end of a slice on a CPU; of a thread's buffer cpu is UINT32_MAX. */
struct slice_end {
	uint32_t cpu, tid;
	uint64_t time;
};

void pd_add_loss(struct pd_losses *l, const struct pd_origin *o, enum pd_loss_kind kind)
{
	struct pd_loss loss = {
		.tid = o->tid, .cpu = o->cpu, .kind = kind, .begun = o->time, .from = o->time, .to = o->time + 1
	};

	buf_add(&l->by_thread, &loss, sizeof(loss));
}

void pd_add_pause(struct pd_losses *l, uint64_t from, uint64_t to, enum pd_loss_kind kind)
{
	struct pd_loss loss = { UINT32_MAX, UINT32_MAX, kind, from, from, from == to ? to + 1 : to, 0 };

	buf_add(&l->by_thread, &loss, sizeof(loss));
}

static bool same_buffer(const struct pd_piece *a, const struct pd_piece *b)
{
	return a->cpu == b->cpu && a->index == b->index && (a->cpu != UINT32_MAX || a->tid == b->tid);
}

/* Bytes of a buffer that no record describes: of which threads, and when they ran in between, is unknown. */
static void add_hole(struct pd_losses *l, const struct pd_piece *before, struct pd_piece *after)
{
	struct pd_loss loss = { .tid = after->cpu == UINT32_MAX ? after->tid : UINT32_MAX,
				.cpu = after->cpu,
				.kind = PD_LOSS_RECORDS,
				.begun = before->origin.time,
				.from = before->origin.time,
				.to = after->origin.time };

	if (!loss.to)
		after->flags |= PD_AUX_PARTIAL;
	buf_add(&l->by_thread, &loss, sizeof(loss));
}

/*
 * Adds what the flags of a slice report, and the bytes that the file lacks. Its beginning is lost after the slice
 * before it, its end until its time.
 */
static void add_missing(struct pd_losses *l, const struct pd_piece *p, uint64_t begun)
{
	bool cut = p->lost && !(p->flags & PD_AUX_GAP);
	enum pd_loss_kind kind = p->flags & PD_AUX_TRUNCATED ? PD_LOSS_TRUNCATED
				 : cut                       ? PD_LOSS_RECORDS
							     : PD_LOSS_OVERWRITTEN;

	if (cut || p->flags & (PD_AUX_TRUNCATED | PD_AUX_COLLISION)) {
		pd_add_loss(l, &p->origin, kind);
		if (!buf_error(&l->by_thread))
			((struct pd_loss *)(l->by_thread.data + l->by_thread.size) - 1)->begun = begun;
	}
	if (p->flags & PD_AUX_PARTIAL) {
		struct pd_loss loss = {
			p->origin.tid, p->origin.cpu, PD_LOSS_OVERWRITTEN, begun, begun, p->origin.time
		};

		buf_add(&l->by_thread, &loss, sizeof(loss));
	}
}

static int compare_ends(const void *left, const void *right)
{
	const struct slice_end *a = left, *b = right;
	int c = COMPARE(a->cpu, b->cpu);

	c = c ? c : COMPARE(a->tid, b->tid);
	return c ? c : COMPARE(a->time, b->time);
}

static int compare_ends_of_cpu(const void *left, const void *right)
{
	const struct slice_end *a = left, *b = right;
	int c = COMPARE(a->cpu, b->cpu);

	return c ? c : COMPARE(a->time, b->time);
}

/* Returns the number of slices that compare lower than the key or, if they ended then, equal. */
static size_t count_up_to(const struct slice_end *ends, size_t n, const struct slice_end *key,
			  int (*compare)(const void *, const void *))
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&ends[middle], key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * An event that was refused its sink, or whose sink failed, stays off on its CPU until the thread's next slice there;
 * one of a CPU, until the next slice of that, whichever thread is named there.
 */
static void extend_truncated(struct pd_losses *l, struct slice_end *ends, size_t n, bool of_cpus, bool shared)
{
	struct pd_loss *list = (struct pd_loss *)l->by_thread.data;

	for (size_t i = 0; i < l->by_thread.size / sizeof(*list); i++) {
		struct slice_end key = { of_cpus ? list[i].cpu : UINT32_MAX, list[i].tid, list[i].from };
		size_t next = count_up_to(ends, n, &key, shared ? compare_ends_of_cpu : compare_ends);

		if (list[i].kind != PD_LOSS_TRUNCATED || list[i].tid == UINT32_MAX)
			continue;
		list[i].to = next < n && ends[next].cpu == key.cpu && (shared || ends[next].tid == key.tid)
				 ? ends[next].time
				 : UINT64_MAX;
	}
}

/* Returns the end of the last slice of a CPU that ended no later than a time; 0: there is none. */
static uint64_t last_end(const struct slice_end *ends, size_t n, uint32_t cpu, uint64_t time)
{
	struct slice_end key = { cpu, 0, time };
	size_t before = count_up_to(ends, n, &key, compare_ends_of_cpu);

	return before && ends[before - 1].cpu == cpu ? ends[before - 1].time : 0;
}

/* What a record without trace reports as lost, any thread may have executed since the last slice of the CPU. */
static void extend_back(struct pd_losses *l, const struct slice_end *ends, size_t n)
{
	struct pd_loss *list = (struct pd_loss *)l->by_thread.data;

	for (size_t i = 0; i < l->by_thread.size / sizeof(*list); i++)
		if (list[i].cpu != UINT32_MAX)
			list[i].begun = MIN(list[i].begun, last_end(ends, n, list[i].cpu, list[i].from));
}

/* Any record may have been lost since the last slice of the CPU. */
static void add_lost_records(struct pd_losses *l, const struct slice_end *ends, size_t n, const struct pd_run *runs,
			     size_t n_runs)
{
	for (size_t i = 0; i < n_runs; i++) {
		struct pd_loss loss = { UINT32_MAX, runs[i].cpu, PD_LOSS_RECORDS, 0, 0, runs[i].time };

		if (runs[i].kind != PD_RUN_LOST)
			continue;
		loss.begun = loss.from = MIN(last_end(ends, n, loss.cpu, loss.to), loss.to - 1);
		buf_add(&l->by_thread, &loss, sizeof(loss));
	}
}

static int compare_losses(const void *left, const void *right)
{
	const struct pd_loss *a = left, *b = right;
	int c = COMPARE(a->tid, b->tid);

	return c ? c : COMPARE(a->from, b->from);
}

static int compare_begins(const void *left, const void *right)
{
	const struct pd_loss *a = left, *b = right;

	return COMPARE(a->begun, b->begun);
}

/* Sorts, and sets in each loss which one up to it, in its group, lasts longest. */
static void index_losses(struct buf *b, bool by_thread)
{
	struct pd_loss *list = (struct pd_loss *)b->data;
	size_t n = b->size / sizeof(*list);

	if (n)
		qsort(list, n, sizeof(*list), by_thread ? compare_losses : compare_begins);
	for (size_t i = 0; i < n; i++) {
		bool same = i && (!by_thread || list[i - 1].tid == list[i].tid);

		list[i].longest = same && list[list[i - 1].longest].to >= list[i].to ? list[i - 1].longest : i;
	}
}

int pd_make_losses(struct pd_losses *l, struct pd_piece *pieces, size_t n_pieces, const struct pd_run *runs,
		   size_t n_runs, bool shared)
{
	struct slice_end *ends = calloc(n_pieces + 1, sizeof(*ends));
	bool of_cpus = false;

	if (!ends)
		return -ENOMEM;
	for (size_t i = 0; i < n_pieces; i++) {
		struct pd_piece *p = &pieces[i];
		const struct pd_piece *before = i && same_buffer(p - 1, p) ? p - 1 : NULL;

		add_missing(l, p, before ? before->origin.time : 0);
		if (before && before->offset + before->size + before->lost < p->offset)
			add_hole(l, before, p);
		ends[i] =
		    (struct slice_end){ p->cpu == UINT32_MAX ? p->cpu : p->origin.cpu, p->origin.tid, p->origin.time };
		of_cpus |= p->cpu != UINT32_MAX;
	}
	if (!buf_error(&l->by_thread)) {
		qsort(ends, n_pieces, sizeof(*ends), shared ? compare_ends_of_cpu : compare_ends);
		extend_truncated(l, ends, n_pieces, of_cpus, shared);
		qsort(ends, n_pieces, sizeof(*ends), compare_ends_of_cpu);
		if (of_cpus)
			extend_back(l, ends, n_pieces);
		add_lost_records(l, ends, n_pieces, runs, n_runs);
	}
	free(ends);
	buf_add(&l->by_time, l->by_thread.data, l->by_thread.size);
	if (buf_error(&l->by_thread) || buf_error(&l->by_time))
		return -ENOMEM;
	index_losses(&l->by_thread, true);
	index_losses(&l->by_time, false);
	return 0;
}

void pd_losses_done(struct pd_losses *l)
{
	buf_done(&l->by_thread);
	buf_done(&l->by_time);
}

static bool find_lost(const struct pd_contents *c, uint32_t tid, uint64_t since, uint64_t until, enum pd_loss_kind *ret)
{
	const struct pd_loss key = { .tid = tid, .from = until }, *longest;
	size_t low = 0, high = c->n_losses;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_losses(&c->losses[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || c->losses[low - 1].tid != tid)
		return false;
	longest = &c->losses[c->losses[low - 1].longest];
	if (longest->to <= since)
		return false;
	*ret = longest->kind;
	return true;
}

bool pd_lost_between(const struct pd_contents *c, uint32_t tid, uint64_t since, uint64_t until, enum pd_loss_kind *ret)
{
	return find_lost(c, tid, since, until, ret) || find_lost(c, UINT32_MAX, since, until, ret);
}

bool pd_lost_anywhere(const struct pd_contents *c, uint64_t since, uint64_t until, enum pd_loss_kind *ret)
{
	size_t low = 0, high = c->n_losses;
	const struct pd_loss *longest;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->losses_by_time[middle].begun < until)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	longest = &c->losses_by_time[c->losses_by_time[low - 1].longest];
	if (longest->to <= since)
		return false;
	*ret = longest->kind;
	return true;
}
