/* SPDX-License-Identifier: MIT */
#include "daemon/decode/demux-loss.h"
#include "lib/base/util.h"

static enum element_reason reason_of(enum pd_loss_kind kind)
{
	static const enum element_reason reasons[] = { [PD_LOSS_TRUNCATED] = REASON_TRUNCATED,
						       [PD_LOSS_RECORDS] = REASON_LOST,
						       [PD_LOSS_OVERWRITTEN] = REASON_OVERWRITTEN,
						       [PD_LOSS_PAUSED] = REASON_PAUSED };

	return reasons[kind];
}

/* True if trace is lost that may be of the thread of a stretch. A slice of several threads has the number of one. */
static bool may_have_lost(const struct demux *d, const struct feed *f, uint64_t since, uint64_t until,
			  enum pd_loss_kind *ret)
{
	bool lost = demux_is_slice(f) && f->has_tid ? pd_lost_between(d->input->contents, f->tid, since, until, ret)
						    : pd_lost_anywhere(d->input->contents, since, until, ret);

	return lost || since < d->whole_since;
}

/*
 * True if the thread may have executed what is lost in an interval: not while it did not run, by the records of its
 * switches. Threads that inherited the same events exchange them: after a failure the one that is off may be that of
 * any thread, so that a run without a stretch may be untraced.
 */
static bool ran_unseen(const struct demux *d, const struct feed *f, uint64_t since, uint64_t until)
{
	bool exchanged = f->stream->by_context || f->stream->by_switches;
	uint64_t fails_since = exchanged ? d->fails_since : UINT64_MAX;
	enum pd_loss_kind kind;
	struct schedule_pause pause;

	for (bool first = true; f->has_tid && schedule_pause(d->input->schedule, f->tid, since, until, &pause);
	     first = false, since = pause.to)
		if (may_have_lost(d, f, since, pause.from, &kind) || (!first && pause.from > fails_since))
			return true;
	return may_have_lost(d, f, since, until, &kind);
}

/*
 * True if the thread may have executed what is lost, or of unknown owner, since its last stretch; on any CPU, unless
 * each slice holds one thread.
 */
static bool lost_since(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u,
		       enum element_reason *ret)
{
	enum pd_loss_kind kind = PD_LOSS_OVERWRITTEN;
	const uint64_t tick = d->input->clock ? d->input->clock->mult >> d->input->clock->shift : 0;
	/* Timestamps are rounded down: within a tick, a thread does not come from another CPU. */
	bool by_piece = demux_is_slice(f) || !d->input->has_clock;
	uint64_t since = by_piece ? t->piece->origin.time : t->since + tick;
	uint64_t until = by_piece ? u->piece->origin.time : u->has_at ? u->at : u->hi;
	bool lost = may_have_lost(d, f, since, until, &kind);

	*ret = reason_of(lost ? kind : PD_LOSS_TRUNCATED);
	if ((lost || until > d->fails_since) && ran_unseen(d, f, since, until))
		return true;
	*ret = REASON_INIT;
	return t->unseen && t->since <= t->unseen;
}

/* True if the thread cannot have run elsewhere since its last stretch, as this one comes next on the same CPU. */
static bool follows_directly(const struct demux *d, const struct feed *f, const struct track *t,
			     const struct element_unit *u)
{
	return t->feed == f && f->last == t &&
	       !(d->input->has_clock && schedule_elsewhere(d->input->schedule, f->stream->source_cpu, f->tid, t->since,
							   u->has_at ? u->at : u->hi));
}

/* True if the end of an AUX slice or the beginning of a later one is missing. */
static bool is_cut(const struct pd_piece *before, const struct pd_piece *here, enum element_reason *ret)
{
	enum { LOSSY = PD_AUX_TRUNCATED | PD_AUX_PARTIAL | PD_AUX_COLLISION };

	*ret = before->flags & PD_AUX_TRUNCATED ? REASON_TRUNCATED : before->lost ? REASON_LOST : REASON_OVERWRITTEN;
	return before->lost || before->flags & LOSSY || here->flags & PD_AUX_PARTIAL;
}

/*
 * True if the sink's buffer was full when the kernel copied this piece from it: earlier trace is overwritten. From a
 * full buffer of a shared sink, a piece has the buffer's size, a power of two, however much was overwritten.
 */
static bool was_full(const struct pd_piece *p)
{
	enum { PAGE = 4096 };

	return p->flags & PD_AUX_OVERWRITE && p->size >= PAGE && (p->size & (p->size - 1)) == 0;
}

bool demux_loss_none(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u,
		     enum element_reason *ret_why)
{
	const struct pd_piece *before = t->piece, *here = u->piece;
	enum pd_loss_kind kind;

	if (before == here && demux_is_slice(f))
		return true;
	if (lost_since(d, f, t, u, ret_why))
		return before == here && follows_directly(d, f, t, u);
	if (before == here)
		return true;
	if (f->stream->of_threads && is_cut(before, here, ret_why))
		return false;
	*ret_why = REASON_INIT;
	if (f->stream->of_threads)
		return (t->after_exception || t->in_kernel) && !u->late;
	*ret_why = was_full(here) ? REASON_OVERWRITTEN : REASON_PAUSED;
	if (pd_lost_anywhere(d->input->contents, before->origin.time, f->time, &kind))
		*ret_why = reason_of(kind);
	/* AUX slices of two CPUs that were recorded during the same time. */
	return d->input->has_clock && f->time < before->origin.time;
}

void demux_loss_of_slice(struct demux *d, const struct feed *f, const struct element_unit *u)
{
	if (!demux_is_slice(f))
		d->whole_since = MAX(d->whole_since, d->input->has_clock ? u->hi : u->piece->origin.time);
	for (uint32_t i = 0; i < d->n_tracks; i++)
		if (!demux_is_slice(f) || d->tracks[i]->stream.tid == f->tid)
			d->tracks[i]->gap = true;
}

/* A thread, or any one (tid UINT32_MAX), may have executed something up to a time that is not in its track. */
static void lose_until(struct demux *d, uint32_t tid, uint64_t time)
{
	uint32_t *number = tid == UINT32_MAX ? NULL : hash_get(&d->threads, tid, 0);
	struct track *t;

	if (number)
		d->tracks[*number]->unseen = MAX(d->tracks[*number]->unseen, time);
	if (tid != UINT32_MAX)
		return;
	TAILQ_FOREACH (t, &d->open, link)
		t->unseen = MAX(t->unseen, time);
}

void demux_loss_of_stretch(struct demux *d, struct feed *f, const struct element_unit *u)
{
	uint64_t lo = u->has_at ? u->at : u->lo, hi = u->has_at ? u->at : u->hi;
	uint32_t tid = f->has_tid ? f->tid : UINT32_MAX;
	struct schedule_run run;
	bool listed = false;
	size_t at = 0;

	/* Without timestamps, all stretches of a slice have the same bounds. */
	if (lo >= f->unknown.from && hi <= f->unknown.to && tid == f->unknown.tid)
		return;
	f->unknown = (struct schedule_run){ tid, lo, hi };
	if (!f->has_tid && d->input->has_clock && schedule_has_switches(d->input->schedule))
		for (; schedule_next(d->input->schedule, f->stream->source_cpu, lo, hi, &at, &run); listed = true)
			lose_until(d, run.tid, MIN(hi, run.to));
	if (!listed)
		lose_until(d, tid, hi);
}

/* Returns until when a thread may have executed the last stretch of a feed that was left out; 0: it has not. */
static uint64_t unknown_until(const struct demux *d, const struct feed *f, uint32_t tid)
{
	const struct schedule_run *u = &f->unknown;
	struct schedule_run run;
	bool listed = false;
	uint64_t until = 0;
	size_t at = 0;

	if (u->tid != UINT32_MAX || !d->input->has_clock || !schedule_has_switches(d->input->schedule))
		return u->tid == UINT32_MAX || u->tid == tid ? u->to : 0;
	for (; schedule_next(d->input->schedule, f->stream->source_cpu, u->from, u->to, &at, &run); listed = true)
		if (run.tid == tid || run.tid == UINT32_MAX)
			until = MIN(u->to, run.to);
	return listed ? until : u->to;
}

void demux_loss_before_thread(const struct demux *d, struct track *t)
{
	for (size_t i = 0; i < d->n_feeds; i++)
		t->unseen = MAX(t->unseen, unknown_until(d, &d->feeds[i], t->stream.tid));
}

/* True if older trace than the oldest AUX slice may be lost: the slice begins behind 0, or is that of a full sink. */
static bool has_wrapped(const struct stream *s)
{
	return s->n_pieces && (s->pieces[0].offset || was_full(&s->pieces[0]));
}

void demux_loss_before_piece(struct demux *d, struct feed *f, const struct element_unit *u)
{
	bool first = !f->piece;

	if (u->piece == f->piece)
		return;
	f->piece = u->piece;
	if (f->stream->of_threads && !demux_is_slice(f) && (u->late || was_full(u->piece)) && d->input->has_clock)
		d->whole_since = MAX(d->whole_since, u->has_at ? u->at : u->hi);
	if (d->n_feeds == 1 || f->stream->of_threads || !(first ? has_wrapped(f->stream) : was_full(u->piece)))
		return;
	if (u->has_at)
		d->whole_since = MAX(d->whole_since, u->at);
	else
		d->whole_since = MAX(d->whole_since, u->n && u->hi == UINT64_MAX ? u->lo : u->hi);
}

/*
 * Returns the time of the oldest AUX slice in a wrapped ring buffer of a CPU; 0 if it has not wrapped. Any thread may
 * have run there before.
 */
static uint64_t whole_since(const struct stream *s)
{
	bool of_cpu = s->cpu != UINT32_MAX && s->of_threads;

	return of_cpu && has_wrapped(s) ? s->pieces[0].origin.time : 0;
}

void demux_loss_init(struct demux *d)
{
	const struct pd_contents *c = d->input->contents;

	d->fails_since = UINT64_MAX;
	for (size_t i = 0; i < c->n_losses; i++)
		if (c->losses[i].kind == PD_LOSS_TRUNCATED)
			d->fails_since = MIN(d->fails_since, c->losses[i].from);
	for (size_t i = 0; i < d->n_feeds; i++)
		d->whole_since = MAX(d->whole_since, whole_since(d->feeds[i].stream));
}
