/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <sys/queue.h>

#include "daemon/decode/demux.h"
#include "daemon/decode/element-queue.h"
#include "lib/base/hash.h"
#include "lib/base/util.h"

enum {
	THREADS_OPEN = 16384, /* tracks of threads that may be open at a time */
	TRACKS_MAX = 65536,
};

/* An output stream: a thread, or the unattributed execution of a CPU. */
struct track {
	struct stream stream;
	struct decode_stats stats;
	const struct pd_piece *piece; /* of the last stretch; NULL: none yet */
	const struct feed *feed;      /* of the last stretch */
	uint64_t since;               /* of the last stretch: it began no earlier */
	uint64_t unseen;              /* up to this time, it may have executed what is not in the track */
	bool in_kernel;               /* the last range was there */
	bool after_exception;         /* no instruction has been executed since the last exception */
	bool stopped; /* the trace stopped while the thread was in the kernel, and began in another one */
	bool gap;     /* elements have been left out since the last stretch */
	bool again;   /* the thread had an earlier track, which end_oldest() ended */
	bool ended;
	TAILQ_ENTRY(track) link; /* in struct demux.open */
};

struct feed {
	struct element_queue *queue;
	const struct stream *stream;
	struct track *cpu_track; /* for stretches without a thread; NULL: none yet */
	struct track *track;     /* of the current stretch; NULL: it is not emitted */
	uint32_t tid;
	bool has_tid;
	const struct pd_piece *piece; /* of the stretch at the head */
	bool placed;                  /* thread and time of that stretch are set: */
	uint64_t time, order;
	uint64_t since;                  /* lower bound of the time; for slices the same */
	bool unordered;                  /* its order among stretches of its thread is uncertain */
	uint64_t left;                   /* time at which its thread left the CPU; 0: unknown */
	uint64_t after;                  /* no later stretch begins before this time */
	uint64_t unknown_lo, unknown_hi; /* bounds of the last stretch of unknown owner, */
	uint32_t unknown_tracks;         /* and the number of tracks at that time */
	struct track *last;              /* of the preceding stretch; NULL: it was not emitted */
	uint64_t read;                   /* bytes of the stream that bytes_done includes */
};

struct demux {
	struct input *input;
	struct outputs *outputs;
	struct decode_stats *stats;
	struct feed *feeds;
	size_t n_feeds;
	struct track **tracks;
	uint32_t n_tracks;
	struct hash threads;      /* by thread ID: index of the last track of the thread */
	TAILQ_HEAD(, track) open; /* open tracks of threads; the one that ran last is at the end */
	uint32_t n_open;
	const struct track *at; /* the track of the last outputs_begin() */
	/*
	 * Before this time, trace of some CPU is lost that no record reports: AUX slices of a wrapped ring buffer, or
	 * what cannot be decoded of a buffer that several threads share. Any thread may have run there.
	 */
	uint64_t whole_since;
	uint64_t fails_since; /* time at which the first event of a thread failed */
	uint64_t unordered;   /* number of emitted stretches whose order is uncertain */
	uint64_t left_out;    /* stretches of threads beyond TRACKS_MAX */
	uint64_t bytes_done, bytes_total;
};

/* True if two pieces of a stream follow each other, with no gap of known length between them. */
static bool has_breaks(const struct stream *s)
{
	for (size_t i = 1; i < s->n_pieces; i++)
		if (!((s->pieces[i - 1].flags | s->pieces[i].flags) & PD_AUX_GAP))
			return true;
	return false;
}

bool demux_needed(const struct input *input)
{
	const struct stream_list *s = &input->streams;
	bool needed = input->shown != NULL;

	for (size_t i = 0; !needed && i < s->n; i++)
		needed = s->list[i].cpu != UINT32_MAX || has_breaks(&s->list[i]) || s->list[i].shares;
	return needed && input->contents->n_pieces;
}

static int add_track(struct demux *d, const struct stream *s, struct track **ret)
{
	struct track *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->stream = *s;
	t->stream.number = d->n_tracks;
	t->stats.sync = UINT64_MAX;
	d->tracks[d->n_tracks++] = t;
	*ret = t;
	return 0;
}

static int end_track(struct demux *d, struct track *t)
{
	t->ended = true;
	return t->piece ? outputs_end(d->outputs, &t->stream) : 0;
}

/*
 * Ends the thread that has not run for the longest time. Outputs keep what they have of it; if it runs again, it begins
 * anew with a gap.
 */
static int end_oldest(struct demux *d)
{
	struct track *t = TAILQ_FIRST(&d->open);

	TAILQ_REMOVE(&d->open, t, link);
	d->n_open--;
	d->at = d->at == t ? NULL : d->at;
	t->stream.ends_early = true;
	return end_track(d, t);
}

/* Adds a track for a thread. before: the earlier track of the thread, which has ended, or NULL. */
static int add_thread(struct demux *d, const struct feed *f, uint32_t tid, const struct track *before,
		      struct track **ret)
{
	struct stream s = *f->stream;
	uint32_t *number;
	int rc = d->n_open == THREADS_OPEN ? end_oldest(d) : 0;

	if (rc < 0)
		return rc;
	s.tid = tid;
	s.cpu = UINT32_MAX;
	s.of_threads = true;
	s.name = stream_thread_name(d->input->contents, tid);
	if (!f->stream->of_threads || s.pid == UINT32_MAX)
		s.pid = stream_list_pid(&d->input->streams, tid);
	rc = add_track(d, &s, ret);
	if (rc == 0 && hash_find(&d->threads, tid, 0, &number) < 0)
		rc = -ENOMEM;
	if (rc < 0)
		return rc;
	*number = (*ret)->stream.number;
	(*ret)->again = before;
	TAILQ_INSERT_TAIL(&d->open, *ret, link);
	d->n_open++;
	return 0;
}

/* Finds or adds the track of a thread that runs now; *ret is NULL if there are too many threads. */
static int find_thread(struct demux *d, const struct feed *f, uint32_t tid, struct track **ret)
{
	uint32_t *number = hash_get(&d->threads, tid, 0);
	struct track *t = number ? d->tracks[*number] : NULL;

	*ret = NULL;
	if (t && !t->ended) {
		TAILQ_REMOVE(&d->open, t, link);
		TAILQ_INSERT_TAIL(&d->open, t, link);
		*ret = t;
		return 0;
	}
	if (d->n_tracks < TRACKS_MAX)
		return add_thread(d, f, tid, t, ret);
	d->left_out++;
	return 0;
}

/* Finds or adds the track of a CPU's unattributed execution, which is not in the hash table. */
static int find_cpu_track(struct demux *d, struct feed *f, struct track **ret)
{
	struct stream s = *f->stream;
	int rc = 0;

	if (!f->cpu_track && d->n_tracks < TRACKS_MAX + d->n_feeds) {
		s.cpu = s.source_cpu != UINT32_MAX ? s.source_cpu : s.cpu;
		rc = add_track(d, &s, &f->cpu_track);
	}
	*ret = f->cpu_track;
	return rc;
}

/* True if the thread of a stretch is the one that the AUX record of its slice names. */
static bool is_slice(const struct feed *f)
{
	return f->stream->of_threads && !f->stream->by_context;
}

/*
 * Determines the thread of the stretch that begins with this unit; demux.h has the rules. Returns false if it is
 * unknown.
 */
static bool find_owner(struct demux *d, const struct feed *f, const struct element_unit *u, uint32_t *ret)
{
	uint32_t before, pid = UINT32_MAX, pid_before = UINT32_MAX;
	const struct schedule *schedule = d->input->schedule;
	uint64_t lo = u->has_at ? u->at : u->lo, hi = u->has_at ? u->at : u->hi;

	if (is_slice(f)) {
		*ret = f->stream->cpu == UINT32_MAX ? f->stream->tid : u->piece->origin.tid;
		return *ret != UINT32_MAX;
	}
	if (u->has_tid) {
		*ret = u->tid;
		return true;
	}
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

/* True if --thread selects the thread of the stretch. */
static bool is_wanted(const struct demux *d, const struct feed *f)
{
	int64_t only = d->input->job->only_thread;

	return only < 0 || (f->has_tid && f->tid == only);
}

/* True if records show the thread on another CPU during the interval. */
static bool was_elsewhere(const struct demux *d, const struct feed *f, uint64_t lo, uint64_t hi)
{
	struct schedule_run run;

	for (size_t i = 0; i < d->n_feeds && lo < hi; i++)
		if (d->feeds[i].stream->source_cpu != f->stream->source_cpu &&
		    schedule_first(d->input->schedule, d->feeds[i].stream->source_cpu, f->tid, lo, hi, &run) &&
		    run.to > lo)
			return true;
	return false;
}

/* True if records show the thread on this CPU, and on no other, in all the time in which the unit may have run. */
static bool is_ordered(const struct demux *d, const struct feed *f, const struct element_unit *u)
{
	const struct schedule *schedule = d->input->schedule;
	uint64_t lo = MAX(u->lo, f->after), hi = u->hi;
	struct schedule_run run;

	narrow(d, f, &lo, &hi);
	return d->input->has_clock && schedule_first(schedule, f->stream->source_cpu, f->tid, lo, MAX(lo, hi), &run) &&
	       !was_elsewhere(d, f, lo, hi);
}

/*
 * Determines the thread and the time of the stretch at the head of a feed. AUX slices of threads are ordered by their
 * records, everything else by timestamps.
 */
static void place_stretch(struct demux *d, struct feed *f, const struct element_unit *u)
{
	uint64_t lo, hi;
	struct schedule_run run;
	uint32_t before = f->tid;
	bool had = f->has_tid, early;

	f->placed = true;
	f->unordered = false;
	f->has_tid = find_owner(d, f, u, &f->tid);
	/* Another thread follows: the previous one had left the CPU. */
	if (had != f->has_tid || before != f->tid)
		f->after = MAX(f->after, f->left);
	if (is_slice(f)) {
		f->time = f->since = u->piece->origin.time;
		f->order = (uint64_t)(u->piece - d->input->contents->pieces);
		return;
	}
	f->order = 0;
	f->left = 0;
	lo = MAX(u->has_at ? u->at : u->lo, f->after);
	hi = u->has_at ? u->at : u->hi;
	/*
	 * What may be of several threads precedes all that they ran later. Where trace of a slice is missing, the bound
	 * is the slice's end, which may be later than what follows.
	 */
	early = !u->n || !f->has_tid || (u->piece->lost && hi == u->piece->origin.time);
	f->since = lo;
	f->time = u->has_at || hi == UINT64_MAX || early ? lo : hi;
	/* Order the stretch by the first run of its thread: the thread was on no other CPU then. */
	if (d->input->has_clock && f->has_tid &&
	    schedule_first(d->input->schedule, f->stream->source_cpu, f->tid, lo, MAX(lo, hi), &run)) {
		f->time = MAX(lo, run.from);
		f->since = MAX(f->since, run.from);
		f->left = run.to;
	}
	f->unordered = !u->has_at && u->code && f->has_tid && d->n_feeds > 1 && !is_ordered(d, f, u);
}

/* True if the unit may be emitted: of a shared sink, only if its time bounds lie within an interval of its thread. */
static bool is_shown(const struct demux *d, const struct feed *f, const struct element_unit *u)
{
	uint64_t lo = u->lo, hi = u->hi;

	if (!d->input->shown)
		return true;
	if (!f->has_tid)
		return false;
	narrow(d, f, &lo, &hi);
	return intervals_contain(d->input->shown, f->tid, lo, hi);
}

/* False for a thread of others in a shared sink: the tracks, and their number, are those of the target alone. */
static bool is_targets(const struct demux *d, const struct feed *f)
{
	return !d->input->shown || intervals_have(d->input->shown, f->tid);
}

static int emit_element(struct demux *d, struct track *t, const struct element *e)
{
	decode_stats_add_element(&t->stats, e);
	return outputs_element(d->outputs, e);
}

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
	bool lost = is_slice(f) && f->has_tid ? pd_lost_between(d->input->contents, f->tid, since, until, ret)
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
	uint64_t fails_since = f->stream->by_context ? d->fails_since : UINT64_MAX;
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
	uint64_t since = is_slice(f) ? t->piece->origin.time : t->since + tick;
	uint64_t until = is_slice(f) ? u->piece->origin.time : u->has_at ? u->at : u->hi;
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
	       !(d->input->has_clock && was_elsewhere(d, f, t->since, u->has_at ? u->at : u->hi));
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

/*
 * True if nothing is missing between the last stretch of the thread and this one. AUX slices of a thread are contiguous
 * if the thread left by an exception, or in the kernel, where it switches to another, and no trace was lost.
 */
static bool continues_thread(const struct demux *d, const struct feed *f, const struct track *t,
			     const struct element_unit *u, enum element_reason *ret_why)
{
	const struct pd_piece *before = t->piece, *here = u->piece;
	enum pd_loss_kind kind;

	if (before == here && is_slice(f))
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

static int begin_stretch(struct demux *d, const struct feed *f, struct track *t, const struct element_unit *u)
{
	struct element lost = { .kind = ELEM_NO_SYNC, .isa = ISA_UNKNOWN };
	enum element_reason why = t->again && !t->piece ? REASON_LOST : REASON_INIT;
	bool gap = !t->piece || t->gap || !continues_thread(d, f, t, u, &why);

	lost.reason = why;
	t->gap = false;
	t->piece = u->piece;
	t->since = f->since;
	t->feed = f;
	if (u->gap && !gap) {
		lost.reason = u->gap_reason;
		gap = true;
	}
	return gap ? emit_element(d, t, &lost) : 0;
}

static void track_exception(struct track *t, const struct element *e)
{
	if (e->kind == ELEM_RANGE)
		t->in_kernel = e->range.start >> 63;
	if (e->kind == ELEM_EXCEPTION)
		t->after_exception = true;
	else if (e->kind == ELEM_RANGE || e->kind == ELEM_RANGE_NOPATH || e->kind == ELEM_NO_IMAGE ||
		 e->kind == ELEM_UNKNOWN_ADDRESS)
		t->after_exception = false;
}

/* True if the trace has begun again at the beginning of a stretch. */
static bool begins_trace(const struct feed *f, const struct element_unit *u)
{
	const struct element *e = element_queue_elements(f->queue);
	uint32_t i = 0;

	while (i < u->n && e[i].kind == ELEM_TIMESTAMP)
		i++;
	return i < u->n && e[i].kind == ELEM_TRACE_ON;
}

/* What the thread executed until it was switched away is missing, without a word of it in its own trace. */
static int resume(struct demux *d, const struct feed *f, struct track *t, const struct element_unit *u)
{
	const struct element on = { .kind = ELEM_TRACE_ON, .isa = ISA_UNKNOWN, .reason = REASON_BEGIN };
	bool missing = t->stopped && !begins_trace(f, u);

	t->stopped = false;
	return missing ? emit_element(d, t, &on) : 0;
}

static int emit_unit(struct demux *d, struct feed *f, struct track *t, const struct element_unit *u)
{
	const struct element *e = element_queue_elements(f->queue);
	int rc = 0;

	t->stream.config = f->stream->config;
	d->unordered += u->first && f->unordered;
	if (d->at != t)
		rc = outputs_begin(d->outputs, &t->stream);
	d->at = t;
	if (rc == 0 && (u->first || t->gap || !t->piece))
		rc = begin_stretch(d, f, t, u);
	if (rc == 0 && u->first)
		rc = resume(d, f, t, u);
	for (uint32_t i = 0; rc == 0 && i < u->n; i++) {
		track_exception(t, &e[i]);
		rc = emit_element(d, t, &e[i]);
	}
	return rc;
}

/* Nothing in an AUX slice could be decoded: its thread, or any thread if it may hold several, may have run there. */
static void lose_slice(struct demux *d, const struct feed *f, const struct element_unit *u)
{
	if (!is_slice(f))
		d->whole_since = MAX(d->whole_since, u->hi);
	for (uint32_t i = 0; i < d->n_tracks; i++)
		if (!is_slice(f) || d->tracks[i]->stream.tid == f->tid)
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

/* A stretch whose thread is unknown is missing in each thread that may have executed it. */
static void lose_stretch(struct demux *d, struct feed *f, const struct element_unit *u)
{
	uint64_t lo = u->has_at ? u->at : u->lo, hi = u->has_at ? u->at : u->hi;
	struct schedule_run run;
	size_t at = 0;

	/* Without timestamps, all stretches of a slice have the same bounds. */
	if (lo >= f->unknown_lo && hi <= f->unknown_hi && f->unknown_tracks == d->n_tracks)
		return;
	f->unknown_lo = lo;
	f->unknown_hi = hi;
	f->unknown_tracks = d->n_tracks;
	if (!d->input->has_clock || !schedule_has_switches(d->input->schedule))
		lose_until(d, UINT32_MAX, hi);
	while (d->input->has_clock && schedule_next(d->input->schedule, f->stream->source_cpu, lo, hi, &at, &run))
		lose_until(d, run.tid, MIN(hi, run.to));
}

static int consume_unit(struct demux *d, struct feed *f, const struct element_unit *u)
{
	int rc = 0;

	if (!u->n) {
		lose_slice(d, f, u);
		f->track = NULL;
		element_queue_pop(f->queue);
		return 0;
	}
	if (u->code && !f->has_tid)
		lose_stretch(d, f, u);
	if (u->first) {
		f->last = f->track;
		f->track = NULL;
		if (!is_wanted(d, f))
			f->track = NULL;
		else if (f->has_tid && is_targets(d, f))
			rc = find_thread(d, f, f->tid, &f->track);
		else if (!f->has_tid && !d->input->shown && u->code)
			rc = find_cpu_track(d, f, &f->track);
	}
	if (rc == 0 && f->track && is_shown(d, f, u))
		rc = emit_unit(d, f, f->track, u);
	else if (rc == 0 && f->track)
		f->track->gap = true;
	element_queue_pop(f->queue);
	return rc;
}

/* Emits the stretch at the head of a feed, to its end. */
static int consume_stretch(struct demux *d, struct feed *f, const struct element_unit *u)
{
	int rc;

	do {
		rc = consume_unit(d, f, u);
		if (rc == 0)
			rc = element_queue_head(f->queue, &u);
		d->bytes_done += stream_decoder_bytes_read(f->queue->decoder) - f->read;
		f->read = stream_decoder_bytes_read(f->queue->decoder);
	} while (rc == 0 && u && !u->first);
	/* The kernel stopped the trace in the thread, unless it goes on in the next one. */
	if (rc == 0 && f->track && f->track->in_kernel && (!u || begins_trace(f, u)))
		f->track->stopped = true;
	f->placed = false;
	job_progress(d->input->job, d->bytes_done, d->bytes_total);
	return rc;
}

/* True if older trace than the oldest AUX slice may be lost: the slice begins behind 0, or is that of a full sink. */
static bool has_wrapped(const struct stream *s)
{
	return s->n_pieces && (s->pieces[0].offset || was_full(&s->pieces[0]));
}

/*
 * A slice of a full buffer that several CPUs share begins at the same time for all of them, but each CPU can only be
 * decoded from its first sync point on. Any thread may have run on the CPU before. A feed reaches that point before a
 * stretch of the slice is emitted.
 */
static void begin_piece(struct demux *d, struct feed *f, const struct element_unit *u)
{
	bool first = !f->piece;

	if (u->piece == f->piece)
		return;
	f->piece = u->piece;
	if (d->n_feeds == 1 || f->stream->of_threads || !(first ? has_wrapped(f->stream) : was_full(u->piece)))
		return;
	if (u->has_at)
		d->whole_since = MAX(d->whole_since, u->at);
	else
		d->whole_since = MAX(d->whole_since, u->n && u->hi == UINT64_MAX ? u->lo : u->hi);
}

/*
 * Finds the feed whose next stretch begins first, and the first unit of that stretch; *ret is NULL when all feeds have
 * ended.
 */
static int find_earliest(struct demux *d, struct feed **ret, const struct element_unit **ret_unit)
{
	*ret = NULL;
	for (size_t i = 0; i < d->n_feeds; i++) {
		struct feed *f = &d->feeds[i];
		const struct element_unit *u;
		int rc = element_queue_head(f->queue, &u);

		if (rc < 0)
			return rc;
		if (!u)
			continue;
		if (!f->placed) {
			begin_piece(d, f, u);
			place_stretch(d, f, u);
		}
		if (*ret && (f->time > (*ret)->time || (f->time == (*ret)->time && f->order >= (*ret)->order)))
			continue;
		*ret = f;
		*ret_unit = u;
	}
	return 0;
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

static int open_feeds(struct demux *d)
{
	const struct stream_list *s = &d->input->streams;
	/* Streams are decoded alternately and share the threads. */
	unsigned workers = (unsigned)((input_workers(d->input) + s->n - 1) / MAX(s->n, (size_t)1));

	d->fails_since = UINT64_MAX;
	for (size_t i = 0; i < d->input->contents->n_losses; i++)
		if (d->input->contents->losses[i].kind == PD_LOSS_TRUNCATED)
			d->fails_since = MIN(d->fails_since, d->input->contents->losses[i].from);
	d->feeds = calloc(s->n + 1, sizeof(*d->feeds));
	d->tracks = calloc(TRACKS_MAX + s->n, sizeof(*d->tracks));
	if (!d->feeds || !d->tracks)
		return -ENOMEM;
	for (; d->n_feeds < s->n; d->n_feeds++) {
		struct feed *f = &d->feeds[d->n_feeds];
		int rc = element_queue_open(d->input, &s->list[d->n_feeds], workers, &f->queue);

		if (rc < 0)
			return rc;
		f->stream = f->queue->stream;
		d->whole_since = MAX(d->whole_since, whole_since(f->stream));
		d->bytes_total += f->stream->bytes;
	}
	return 0;
}

static int demux_streams(struct demux *d)
{
	struct feed *f = NULL;
	const struct element_unit *u = NULL;
	int rc;

	do {
		rc = find_earliest(d, &f, &u);
		if (rc == 0 && f)
			rc = consume_stretch(d, f, u);
	} while (rc == 0 && f);
	for (uint32_t i = 0; rc == 0 && i < d->n_tracks; i++)
		if (!d->tracks[i]->ended)
			rc = end_track(d, d->tracks[i]);
	return rc;
}

static int compare_tracks(const void *left, const void *right)
{
	const struct stream *a = &(*(struct track *const *)left)->stream, *b = &(*(struct track *const *)right)->stream;
	uint64_t x = (uint64_t)(a->cpu != UINT32_MAX) << 32 | (a->cpu != UINT32_MAX ? a->cpu : a->tid);
	uint64_t y = (uint64_t)(b->cpu != UINT32_MAX) << 32 | (b->cpu != UINT32_MAX ? b->cpu : b->tid);

	return (x > y) - (x < y);
}

/* Adds statistics of elements by thread; those of bytes, and of their loss, only to the total. */
static void add_statistics(struct demux *d, json_object *threads)
{
	if (d->n_tracks)
		qsort(d->tracks, d->n_tracks, sizeof(*d->tracks), compare_tracks);
	for (uint32_t i = 0; i < d->n_tracks; i++) {
		if (!d->tracks[i]->piece)
			continue;
		demux_add_thread(threads, &d->tracks[i]->stream, &d->tracks[i]->stats, false);
		decode_stats_sum(d->stats, &d->tracks[i]->stats);
	}
	for (size_t i = 0; i < d->n_feeds; i++)
		decode_stats_sum(d->stats, stream_decoder_stats(d->feeds[i].queue->decoder));
}

int demux_run(struct input *input, struct outputs *outputs, struct decode_stats *stats, json_object *threads)
{
	struct demux d = { .input = input, .outputs = outputs, .stats = stats };
	int rc;

	TAILQ_INIT(&d.open);
	rc = open_feeds(&d);
	if (rc == 0)
		rc = demux_streams(&d);
	if (rc == 0)
		add_statistics(&d, threads);
	if (rc == 0 && d.unordered)
		input_warn(
		    input,
		    "%llu stretches of trace have no timestamp: their order relative to execution on other CPUs is not "
		    "certain",
		    (unsigned long long)d.unordered);
	if (rc == 0 && d.left_out)
		input_warn(
		    input,
		    "more than %d threads ran: those that began last, %llu intervals of execution, are left out; "
		    "--thread selects one of them",
		    TRACKS_MAX, (unsigned long long)d.left_out);
	stats->gaps[GAP_TYPE_LOST] += d.left_out;
	for (size_t i = 0; i < d.n_feeds; i++)
		element_queue_close(d.feeds[i].queue);
	for (uint32_t i = 0; i < d.n_tracks; i++)
		free(d.tracks[i]);
	free(d.tracks);
	hash_done(&d.threads);
	free(d.feeds);
	return rc;
}

void demux_add_thread(json_object *threads, const struct stream *s, const struct decode_stats *t, bool with_bytes)
{
	json_object *o = json_object_new_object();

	if (!o)
		return;
	if (s->buffer) {
		json_add_bytes(o, "buffer", s->buffer);
		json_add_bytes(o, "source", s->name);
		json_add_str(o, "protocol", engine_protocol_str(s->config.protocol));
	} else if (s->cpu == UINT32_MAX) {
		json_add_u64(o, "tid", s->tid);
		json_add_bytes(o, "name", s->name);
	} else {
		json_add_u64(o, "cpu", s->cpu);
	}
	if (with_bytes)
		json_add_u64(o, "id", s->config.trace_id);
	if (t->sync != UINT64_MAX)
		json_add_u64(o, "sync", t->sync);
	decode_stats_json(t, o);
	if (!with_bytes) {
		json_object_object_del(o, "bytes");
		json_object_object_del(o, "decoded");
	}
	json_array_add(threads, o);
}
