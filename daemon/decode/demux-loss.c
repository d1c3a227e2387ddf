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

/* A thread, and how its stretches are recognized. */
struct who {
	uint32_t tid;   /* UINT32_MAX: any */
	bool by_slice;  /* each slice holds one thread */
	bool exchanged; /* threads exchange the events that they inherited */
};

static struct who who_of(const struct feed *f, uint32_t tid)
{
	return (struct who){ tid, demux_is_slice(f), f->stream->by_context || f->stream->by_switches };
}

/* True if an event of the thread has been off since an earlier round. */
static bool is_off(const struct demux *d, const struct who *who, uint64_t since, enum pd_loss_kind *ret)
{
	const struct open_loss *list = (const struct open_loss *)d->off.data;

	for (size_t i = 0; i < d->off.size / sizeof(*list); i++)
		if ((!who->by_slice || who->tid == UINT32_MAX || list[i].tid == who->tid ||
		     list[i].tid == UINT32_MAX) &&
		    since < list[i].until) {
			*ret = PD_LOSS_TRUNCATED;
			return true;
		}
	return false;
}

/* True if trace is lost that may be of the thread. A slice of several threads has the number of one. */
static bool may_have_lost(const struct demux *d, const struct who *who, uint64_t since, uint64_t until,
			  enum pd_loss_kind *ret)
{
	const struct pd_contents *c = d->input->contents;
	bool lost = who->by_slice && who->tid != UINT32_MAX ? pd_lost_between(c, who->tid, since, until, ret)
							    : pd_lost_anywhere(c, since, until, ret);

	return lost || since < d->whole_since || is_off(d, who, since, ret);
}

/*
 * True if the thread may have executed what is lost in an interval: not while it did not run, by the records of its
 * switches. Threads that inherited the same events exchange them: after a failure the one that is off may be that of
 * any thread, so that a run without a stretch may be untraced.
 */
static bool ran_unseen(const struct demux *d, const struct who *who, uint64_t since, uint64_t until)
{
	uint64_t fails_since = who->exchanged ? d->fails_since : UINT64_MAX;
	enum pd_loss_kind kind;
	struct schedule_pause pause;

	/* What ran before the first pause that is known may have been another run. */
	if (fails_since < until && (!d->by_records || schedule_lost_between(d->input->schedule, since, until)))
		return true;
	for (bool first = true;
	     who->tid != UINT32_MAX && schedule_pause(d->input->schedule, who->tid, since, until, &pause);
	     first = false, since = pause.to)
		if (may_have_lost(d, who, since, pause.from, &kind) || (!first && pause.from > fails_since))
			return true;
	return may_have_lost(d, who, since, until, &kind);
}

/* Timestamps are rounded down: within a tick, a thread does not come from another CPU. */
static uint64_t tick_of(const struct demux *d)
{
	return d->input->clock ? d->input->clock->mult >> d->input->clock->shift : 0;
}

/* Returns the time at which a piece of a file begins at the earliest. */
static uint64_t begin_of(const struct demux *d, const struct pd_piece *p)
{
	const struct pd_contents *c = d->input->contents;
	bool follows = p > c->pieces && p < c->pieces + c->n_pieces && p[-1].cpu == p->cpu;

	return follows ? p[-1].origin.time : 0;
}

bool demux_loss_untraced(const struct demux *d, const struct track *t, uint64_t until)
{
	bool several = t->stream.by_context || t->stream.by_switches;
	/* When the thread left in a piece of several threads is unknown. */
	uint64_t since = d->input->has_clock ? t->since + tick_of(d)
			 : several           ? begin_of(d, t->piece)
					     : t->piece->origin.time;

	return schedule_untraced(d->input->schedule, t->stream.tid, since, until);
}

/* True if the thread may have executed what is lost, or of unknown owner, in an interval since its last stretch. */
static bool lost_in(const struct demux *d, const struct who *who, const struct track *t, uint64_t since, uint64_t until,
		    enum element_reason *ret)
{
	enum pd_loss_kind kind = PD_LOSS_OVERWRITTEN;
	bool lost = may_have_lost(d, who, since, until, &kind);

	*ret = reason_of(lost ? kind : PD_LOSS_TRUNCATED);
	if ((lost || until > d->fails_since) && ran_unseen(d, who, since, until))
		return true;
	*ret = REASON_INIT;
	return t->unseen && t->since <= t->unseen;
}

/* The same since its last stretch, up to this one; on any CPU, unless each slice holds one thread. */
static bool lost_since(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u,
		       enum element_reason *ret)
{
	const struct who who = who_of(f, f->has_tid ? f->tid : UINT32_MAX);
	bool by_piece = demux_is_slice(f) || !d->input->has_clock;
	uint64_t since = by_piece ? t->piece->origin.time : t->since + tick_of(d);
	uint64_t until = by_piece ? u->piece->origin.time : u->has_at ? u->at : u->hi;

	return lost_in(d, &who, t, since, until, ret);
}

/*
 * True if the thread cannot have run elsewhere since its last stretch, as this one comes next on the same CPU: records
 * would show that, or the slice would have ended, unless events are off.
 */
static bool follows_directly(const struct demux *d, const struct feed *f, const struct track *t,
			     const struct element_unit *u)
{
	uint64_t until = u->has_at ? u->at : u->hi;
	bool shown = d->by_records || d->n_feeds == 1 ||
		     (f->stream->of_threads && until <= d->fails_since && t->since >= d->whole_since);

	return t->feed == f && f->last == t && shown &&
	       !(d->input->has_clock &&
		 schedule_elsewhere(d->input->schedule, f->stream->source_cpu, f->tid, t->since, until));
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

static bool is_whole(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u,
		     enum element_reason *ret_why)
{
	const struct pd_piece *before = t->piece, *here = u->piece;
	enum pd_loss_kind kind;

	*ret_why = REASON_UNTRACED;
	if (f->has_tid && demux_loss_untraced(d, t, d->input->has_clock ? f->time : here->origin.time))
		return false;
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
	*ret_why = REASON_PAUSED;
	if (pd_lost_anywhere(d->input->contents, before->origin.time, f->time, &kind))
		*ret_why = reason_of(kind);
	/* AUX slices of two CPUs that were recorded during the same time. */
	return d->input->has_clock && f->time < before->origin.time;
}

bool demux_loss_none(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u,
		     enum element_reason *ret_why)
{
	bool whole = is_whole(d, f, t, u, ret_why);

	/* A full sink has lost more than what ran while it was stopped to be read. */
	if (!whole && *ret_why == REASON_PAUSED && was_full(u->piece))
		*ret_why = REASON_OVERWRITTEN;
	return whole;
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
	if (!f->has_tid && d->by_records)
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

	if (u->tid != UINT32_MAX || !d->by_records)
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

/*
 * In a later round: if the trace of a CPU does not follow that of the rounds before, returns when its first slice
 * ended; any thread may have run there before. 0: it follows.
 */
static uint64_t follows_since(const struct demux *d, const struct stream *s)
{
	const struct pd_piece *first = s->n_pieces && s->cpu != UINT32_MAX ? &s->pieces[0] : NULL;
	const uint32_t *end = first ? hash_get(&d->ends, s->cpu, 0) : NULL;

	return first && (uint32_t)first->offset != (end ? *end : 0) ? first->origin.time : 0;
}

/* An event that was off records again from the next slice of its thread on that CPU on. */
static void find_ends_of_losses(struct demux *d)
{
	const struct pd_contents *c = d->input->contents;
	struct open_loss *list = (struct open_loss *)d->off.data;

	for (size_t i = 0; i < d->off.size / sizeof(*list); i++)
		for (size_t k = 0; k < c->n_pieces && list[i].until == UINT64_MAX; k++)
			if (c->pieces[k].origin.tid == list[i].tid && c->pieces[k].origin.cpu == list[i].cpu)
				list[i].until = c->pieces[k].origin.time;
}

void demux_loss_init(struct demux *d)
{
	const struct pd_contents *c = d->input->contents;

	for (size_t i = 0; i < c->n_losses; i++)
		if (c->losses[i].kind == PD_LOSS_TRUNCATED)
			d->fails_since = MIN(d->fails_since, c->losses[i].from);
	for (size_t i = 0; i < d->n_feeds; i++)
		d->whole_since = MAX(d->whole_since, d->rounds ? follows_since(d, d->feeds[i].stream)
							       : whole_since(d->feeds[i].stream));
	find_ends_of_losses(d);
}

static bool has_off(const struct demux *d, const struct open_loss *loss)
{
	const struct open_loss *list = (const struct open_loss *)d->off.data;

	for (size_t i = 0; i < d->off.size / sizeof(*list); i++)
		if (list[i].cpu == loss->cpu && list[i].tid == loss->tid)
			return true;
	return false;
}

/* Adds the events that are off at the end of the round, and removes those that are not; too many are those of all. */
static int carry_losses(struct demux *d)
{
	enum { OFF_MAX = 4096 };
	const struct open_loss any = { UINT32_MAX, UINT32_MAX, UINT64_MAX };
	const struct pd_contents *c = d->input->contents;
	struct open_loss *list = (struct open_loss *)d->off.data;
	size_t n = d->off.size / sizeof(*list), kept = 0;

	for (size_t i = 0; i < n; i++)
		if (list[i].until == UINT64_MAX)
			list[kept++] = list[i];
	d->off.size = kept * sizeof(*list);
	for (size_t i = 0; i < c->n_losses; i++) {
		const struct pd_loss *l = &c->losses[i];
		const struct open_loss loss = { l->tid, l->cpu, UINT64_MAX };

		if (l->kind == PD_LOSS_TRUNCATED && l->tid != UINT32_MAX && l->to == UINT64_MAX && !has_off(d, &loss))
			buf_add(&d->off, &loss, sizeof(loss));
	}
	if (d->off.size > OFF_MAX * sizeof(any)) {
		buf_clear(&d->off);
		buf_add(&d->off, &any, sizeof(any));
	}
	return buf_error(&d->off);
}

void demux_loss_end_thread(struct demux *d, uint32_t tid)
{
	struct open_loss *list = (struct open_loss *)d->off.data;
	size_t n = d->off.size / sizeof(*list), kept = 0;

	for (size_t i = 0; i < n; i++)
		if (list[i].tid != tid)
			list[kept++] = list[i];
	d->off.size = kept * sizeof(*list);
}

/* Notes where the trace of each CPU ends. */
static int note_ends(struct demux *d)
{
	int rc = 0;

	for (size_t i = 0; i < d->n_feeds && rc >= 0; i++) {
		const struct stream *s = d->feeds[i].stream;
		const struct pd_piece *last = s->n_pieces ? &s->pieces[s->n_pieces - 1] : NULL;
		uint32_t *end;

		rc = last ? hash_find(&d->ends, s->cpu, 0, &end) : 0;
		if (rc >= 0 && last)
			*end = (uint32_t)(last->offset + last->size + last->lost);
	}
	return rc < 0 ? rc : 0;
}

/* Determines whether anything is missing behind the last stretch of a thread. */
static bool is_cut_off(const struct demux *d, const struct track *t, uint64_t until, enum element_reason *ret)
{
	/* Without any trace in the round, at least as much is missing as for a thread of unknown slices. */
	const struct who who = t->feed      ? who_of(t->feed, t->stream.tid)
			       : d->n_feeds ? who_of(&d->feeds[0], t->stream.tid)
					    : (struct who){ t->stream.tid, false, true };
	uint64_t since = who.by_slice || !d->input->has_clock ? t->piece->origin.time : t->since + tick_of(d);

	*ret = REASON_UNTRACED;
	return demux_loss_untraced(d, t, until) || lost_in(d, &who, t, since, MAX(since, until), ret) ||
	       is_cut(t->piece, &t->before, ret);
}

int demux_loss_end_round(struct demux *d, uint64_t until)
{
	struct track *t;
	int rc;

	TAILQ_FOREACH (t, &d->open, link) {
		enum element_reason why;

		if (!t->piece)
			continue;
		if (!t->gap && is_cut_off(d, t, until, &why)) {
			t->gap = true;
			t->why = why;
		}
		t->before = (struct pd_piece){ .tid = t->piece->tid, .cpu = t->piece->cpu, .origin = t->piece->origin };
		t->before.origin.time = until;
		t->piece = &t->before;
		t->feed = NULL;
		t->since = MAX(t->since, until);
		t->unseen = 0;
	}
	rc = note_ends(d);
	return rc < 0 ? rc : carry_losses(d);
}
