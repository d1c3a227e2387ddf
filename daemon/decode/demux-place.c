/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "daemon/decode/demux-place.h"
#include "lib/base/util.h"

/*
 * Determines the thread of the stretch that begins with this unit; demux.h has the rules. Returns false if it is
 * unknown.
 */
static bool find_owner(struct demux *d, const struct feed *f, const struct element_unit *u, uint32_t *ret)
{
	uint32_t before, pid = UINT32_MAX, pid_before = UINT32_MAX;
	const struct schedule *schedule = d->input->schedule;
	uint64_t lo = u->has_at ? u->at : u->lo, hi = u->has_at ? u->at : u->hi;

	if (u->lost)
		return false;
	if (demux_is_slice(f)) {
		*ret = f->stream->cpu == UINT32_MAX ? f->stream->tid : u->piece->origin.tid;
		return *ret != UINT32_MAX;
	}
	if (u->has_tid) {
		*ret = u->tid;
		return true;
	}
	/* In the kernel, the switch may be before its record. */
	if (f->stream->by_switches && !u->in_kernel)
		return schedule_only_run(schedule, f->stream->source_cpu, lo, hi, ret, &pid) &&
		       (d->input->one_process || pid == u->piece->origin.pid);
	if (!d->input->has_clock || !schedule_only_thread(schedule, f->stream->source_cpu, lo, hi, ret, &pid))
		return false;
	/* The engine read code of the process that ran at the preceding timestamp: it must be the same process. */
	return d->input->one_process ||
	       (schedule_only_thread(schedule, f->stream->source_cpu, u->lo, u->lo, &before, &pid_before) &&
		pid == pid_before);
}

static void narrow(const struct demux *d, const struct feed *f, uint64_t *lo, uint64_t *hi)
{
	if (d->input->has_clock && f->has_tid)
		schedule_narrow(d->input->schedule, f->stream->source_cpu, f->tid, lo, hi);
}

/* True if records show the thread on this CPU, and on no other, in all the time in which the unit may have run. */
static bool is_ordered(const struct demux *d, const struct feed *f, const struct element_unit *u)
{
	const struct schedule *schedule = d->input->schedule;
	uint64_t lo = MAX(u->lo, f->after), hi = u->hi;
	struct schedule_run run;

	narrow(d, f, &lo, &hi);
	return d->input->has_clock && schedule_first(schedule, f->stream->source_cpu, f->tid, lo, MAX(lo, hi), &run) &&
	       !schedule_elsewhere(schedule, f->stream->source_cpu, f->tid, lo, hi);
}

static int by_tid(const void *left, const void *right)
{
	const struct timeless_thread *a = left, *b = right;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static struct timeless_thread *find_timeless(struct feed *f, uint32_t tid)
{
	const struct timeless_thread key = { .tid = tid };
	struct buf *list = &f->timeless.threads;

	return list->size ? bsearch(&key, list->data, list->size / sizeof(key), sizeof(key), by_tid) : NULL;
}

/* Sorts the list, and removes repeated threads. */
static void settle_timeless(struct buf *b)
{
	struct timeless_thread *list = (struct timeless_thread *)b->data;
	size_t n = b->size / sizeof(*list), kept = 0;

	if (n)
		qsort(list, n, sizeof(*list), by_tid);
	for (size_t i = 0; i < n; i++)
		if (!kept || list[kept - 1].tid != list[i].tid)
			list[kept++] = list[i];
	b->size = kept * sizeof(*list);
}

/*
 * Lists the threads of the stretches that have no time up to the next timestamp: all of them are queued. Their order is
 * uncertain where that is not their bound, or any thread may have executed what is lost between them.
 */
static void list_timeless(struct feed *f, uint64_t lo, uint64_t hi, bool loose)
{
	size_t n;
	const struct element_unit *units = element_queue_units(f->queue, &n);

	f->timeless.lo = lo;
	f->timeless.hi = hi;
	f->timeless.loose = loose;
	buf_clear(&f->timeless.threads);
	for (size_t i = 0; i < n && !units[i].has_at && units[i].hi == hi; i++) {
		const struct timeless_thread one = { .tid = units[i].tid };

		f->timeless.loose |= units[i].lost;
		if (units[i].has_tid && units[i].code)
			buf_add(&f->timeless.threads, &one, sizeof(one));
	}
	settle_timeless(&f->timeless.threads);
}

bool demux_place_is_ambiguous(struct demux *d, struct feed *f, bool *ret_gap)
{
	struct timeless_thread *own = f->unordered ? find_timeless(f, f->tid) : NULL, *other;
	uint64_t until = f->unordered ? f->timeless.hi : f->time;

	*ret_gap = false;
	if (d->by_records || demux_is_slice(f))
		return false;
	for (size_t i = 0; i < d->n_feeds; i++) {
		struct feed *g = &d->feeds[i];
		/* Without memory for the list, any thread may be in it. */
		bool unknown = buf_error(&g->timeless.threads) < 0;

		if (g == f || g->timeless.lo >= until || f->since >= g->timeless.hi)
			continue;
		other = find_timeless(g, f->tid);
		if (!other && !unknown)
			continue;
		*ret_gap = true;
		if (other)
			other->ambiguous = true;
		if (own)
			own->ambiguous = true;
	}
	return f->unordered && (f->timeless.loose || !own || own->ambiguous);
}

void demux_place_stretch(struct demux *d, struct feed *f, const struct element_unit *u)
{
	uint64_t lo, hi;
	struct schedule_run run;
	uint32_t before = f->tid;
	bool loose;

	f->placed = true;
	f->unordered = false;
	f->has_tid = find_owner(d, f, u, &f->tid);
	/* Another thread follows: the previous one had left the CPU, but not where it is unknown who follows. */
	if (f->has_tid && before != f->tid)
		f->after = MAX(f->after, f->left);
	f->certain = f->has_tid;
	if (demux_is_slice(f)) {
		f->time = f->since = u->piece->origin.time;
		f->order = (uint64_t)(u->piece - d->input->contents->pieces);
		return;
	}
	/* A thread does not come from another CPU within a tick: what ended there by that time was before. */
	f->order = u->has_at && !d->by_records;
	if (f->has_tid)
		f->left = 0;
	lo = MAX(u->has_at ? u->at : u->lo, f->after);
	hi = u->has_at ? u->at : u->hi;
	/*
	 * What may be of several threads precedes all that they ran later. Where trace of a slice is missing, the bound
	 * is the slice's end, which may be later than what follows.
	 */
	f->unordered = !u->has_at && u->code && f->has_tid && d->n_feeds > 1 && !is_ordered(d, f, u);
	f->certain = f->has_tid && !(f->unordered && d->by_records);
	loose = u->loose || (u->piece->lost && hi == u->piece->origin.time);
	if (!u->has_at && !d->by_records && d->n_feeds > 1) {
		if (f->timeless.lo != u->lo || f->timeless.hi != hi)
			list_timeless(f, u->lo, hi, loose);
		loose = f->timeless.loose;
	}
	f->since = lo;
	f->time = u->has_at || !u->n || !f->certain || loose || (hi == UINT64_MAX && d->by_records) ? lo : hi;
	/* Order the stretch by the first run of its thread: the thread was on no other CPU then. */
	if (d->input->has_clock && f->has_tid &&
	    schedule_first(d->input->schedule, f->stream->source_cpu, f->tid, lo, MAX(lo, hi), &run)) {
		f->time = MAX(lo, run.from);
		f->since = MAX(f->since, run.from);
		f->left = run.to;
	}
}

bool demux_place_is_shown(const struct demux *d, const struct feed *f, const struct element_unit *u)
{
	uint64_t lo = u->lo, hi = u->hi;

	if (!d->input->shown)
		return true;
	if (!f->has_tid)
		return false;
	narrow(d, f, &lo, &hi);
	return intervals_contain(d->input->shown, f->tid, lo, hi);
}

bool demux_place_is_targets(const struct demux *d, const struct feed *f)
{
	return !d->input->shown || intervals_have(d->input->shown, f->tid);
}

bool demux_place_is_wanted(const struct demux *d, const struct feed *f)
{
	int64_t only = d->input->job->only_thread;

	return only < 0 || (f->has_tid && f->tid == only);
}
