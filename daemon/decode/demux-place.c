/* SPDX-License-Identifier: MIT */
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

void demux_place_stretch(struct demux *d, struct feed *f, const struct element_unit *u)
{
	uint64_t lo, hi;
	struct schedule_run run;
	uint32_t before = f->tid;
	bool early;

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
	f->order = 0;
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
	early = !u->n || !f->certain || (u->piece->lost && hi == u->piece->origin.time);
	f->since = lo;
	f->time = u->has_at || hi == UINT64_MAX || early ? lo : hi;
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
