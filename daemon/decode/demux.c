#include <stdlib.h>

#include "daemon/decode/demux.h"
#include "daemon/decode/element-queue.h"
#include "lib/base/util.h"

enum { TRACKS_MAX = 16384, HASH_SIZE = 2 * TRACKS_MAX };

/* What is put together: a thread, or what a CPU did for nobody who is known. */
struct track {
	struct stream stream;
	struct decode_stats stats;
	const struct pd_piece *piece; /* the last one that it was in; NULL: none yet */
	const struct feed *feed;      /* where its last stretch was, */
	uint64_t since;               /* and when that began */
	bool after_exception;         /* nothing ran since */
	bool gap;                     /* something of it was left out */
};

struct feed {
	struct element_queue *queue;
	const struct stream *stream;
	struct track *unknown; /* what is nobody's, or NULL */
	struct track *track;   /* whose the stretch is; NULL: not told */
	uint32_t tid;
	bool has_tid;
	bool weighed; /* the stretch at the head has its owner and its time: */
	uint64_t time, order;
	bool unsure;              /* where the stretch stands among others of its thread */
	uint64_t left;            /* when the thread of that stretch went, as far as it is known */
	uint64_t after;           /* no stretch that comes began before */
	const struct track *last; /* whose the stretch before was; NULL: nobody's who is known */
	uint64_t read;
};

struct demux {
	struct input *input;
	struct outputs *outputs;
	struct decode_stats *stats;
	struct feed *feeds;
	size_t n_feeds;
	struct track **tracks;
	uint32_t n_tracks;
	uint32_t *hash;         /* of threads, by number: index of a track plus one */
	const struct track *at; /* whom outputs are told of now */
	uint64_t whole_since;   /* time of records: what slices ended before may have had others between them */
	uint64_t in_sync; /* CPUs that share a buffer: since when all of them can be read; before, one's may be lost */
	uint64_t unsure;  /* stretches that were told of, and may have been earlier or later */
	uint64_t done, to_do;
};

bool demux_needed(const struct input *input)
{
	const struct stream_list *s = &input->streams;
	bool needed = input->shown != NULL;

	for (size_t i = 0; !needed && i < s->n; i++)
		needed = s->list[i].cpu != UINT32_MAX || s->list[i].n_pieces > 1 || s->list[i].shares;
	return needed && input->contents->n_pieces;
}

static uint32_t *slot_of(struct demux *d, uint32_t tid)
{
	for (uint32_t i = tid * 2654435761u;; i++) {
		uint32_t *slot = &d->hash[i % HASH_SIZE];

		if (!*slot || d->tracks[*slot - 1]->stream.tid == tid)
			return slot;
	}
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

/* NULL where there are too many. */
static int find_thread(struct demux *d, const struct feed *f, uint32_t tid, struct track **ret)
{
	uint32_t *slot = slot_of(d, tid);
	struct stream s = *f->stream;
	int rc = 0;

	*ret = *slot ? d->tracks[*slot - 1] : NULL;
	if (*slot || d->n_tracks == TRACKS_MAX)
		return 0;
	s.tid = tid;
	s.cpu = UINT32_MAX;
	s.of_threads = true;
	s.name = stream_thread_name(d->input->contents, tid);
	if (!f->stream->of_threads || s.pid == UINT32_MAX)
		s.pid = stream_list_pid(&d->input->streams, tid);
	rc = add_track(d, &s, ret);
	if (rc == 0)
		*slot = d->n_tracks;
	return rc;
}

/* A CPU's own track, which is in no hash. */
static int find_unknown(struct demux *d, struct feed *f, struct track **ret)
{
	struct stream s = *f->stream;
	int rc = 0;

	if (!f->unknown && d->n_tracks < TRACKS_MAX + d->n_feeds) {
		s.cpu = s.source_cpu != UINT32_MAX ? s.source_cpu : s.cpu;
		rc = add_track(d, &s, &f->unknown);
	}
	*ret = f->unknown;
	return rc;
}

/* Whose a stretch is that begins with this unit. */
static bool find_owner(struct demux *d, const struct feed *f, const struct element_unit *u, uint32_t *ret)
{
	uint32_t before, pid = UINT32_MAX, pid_before = UINT32_MAX;
	const struct schedule *schedule = d->input->schedule;
	uint64_t lo = u->has_at ? u->at : u->lo, hi = u->has_at ? u->at : u->hi;

	if (f->stream->of_threads && !f->stream->by_context) {
		*ret = f->stream->cpu == UINT32_MAX ? f->stream->tid : u->piece->origin.tid;
		return *ret != UINT32_MAX;
	}
	if (u->has_tid) {
		*ret = u->tid;
		return true;
	}
	if (!d->input->has_clock || !schedule_only_thread(schedule, f->stream->source_cpu, lo, hi, ret, &pid))
		return false;
	/* Its code was looked up in the memory of who ran by the timestamp before: that has to be the same. */
	return d->input->one_process ||
	       (schedule_only_thread(schedule, f->stream->source_cpu, u->lo, u->lo, &before, &pid_before) &&
		pid == pid_before);
}

static void narrow(const struct demux *d, const struct feed *f, uint64_t *lo, uint64_t *hi)
{
	if (d->input->has_clock && f->has_tid)
		schedule_narrow(d->input->schedule, f->stream->source_cpu, f->tid, lo, hi);
}

/* Is told to those who listen only. */
static bool is_wanted(const struct demux *d, const struct feed *f)
{
	int64_t only = d->input->job->only_thread;

	return only < 0 || (f->has_tid && f->tid == only);
}

/* By what the records tell: on a CPU that is not this one, in that time. */
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

/* Its thread was nowhere else in the time that it may have been. */
static bool is_placed(const struct demux *d, const struct feed *f, const struct element_unit *u)
{
	const struct schedule *schedule = d->input->schedule;
	uint64_t lo = MAX(u->lo, f->after), hi = u->hi;
	struct schedule_run run;

	narrow(d, f, &lo, &hi);
	return d->input->has_clock && schedule_first(schedule, f->stream->source_cpu, f->tid, lo, MAX(lo, hi), &run) &&
	       !was_elsewhere(d, f, lo, hi);
}

/* Who did what is at the head, and when: slices of a thread follow each other, others are told by their times. */
static void weigh(struct demux *d, struct feed *f, const struct element_unit *u)
{
	uint64_t lo, hi;
	struct schedule_run run;
	uint32_t before = f->tid;
	bool had = f->has_tid;

	f->weighed = true;
	f->unsure = false;
	f->has_tid = find_owner(d, f, u, &f->tid);
	/* Somebody else came: the one before had gone. */
	if (had != f->has_tid || before != f->tid)
		f->after = MAX(f->after, f->left);
	if (f->stream->of_threads && !f->stream->by_context) {
		f->time = u->piece->origin.time;
		f->order = (uint64_t)(u->piece - d->input->contents->pieces);
		return;
	}
	f->order = 0;
	f->left = 0;
	lo = MAX(u->has_at ? u->at : u->lo, f->after);
	hi = u->has_at ? u->at : u->hi;
	f->time = u->has_at || hi == UINT64_MAX ? lo : hi;
	/* A time at which it surely was somewhere is as good as any: it cannot have been elsewhere. */
	if (d->input->has_clock && f->has_tid &&
	    schedule_first(d->input->schedule, f->stream->source_cpu, f->tid, lo, MAX(lo, hi), &run)) {
		f->time = MAX(lo, run.from);
		f->left = run.to;
	}
	f->unsure = !u->has_at && u->code && f->has_tid && d->n_feeds > 1 && !is_placed(d, f, u);
}

/* Of what is not everybody's, only what is certain. */
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

static int tell(struct demux *d, struct track *t, const struct element *e)
{
	decode_stats_add_element(&t->stats, e);
	return outputs_element(d->outputs, e);
}

/* Whether since its last stretch the thread can have been on a CPU whose trace is lost: it is not seen to have stayed.
 */
static bool was_unseen(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u)
{
	if (f->stream->of_threads || t->since >= d->in_sync)
		return false;
	return t->feed != f || f->last != t ||
	       (d->input->has_clock && was_elsewhere(d, f, t->since, u->has_at ? u->at : u->hi));
}

/* Slices of a thread follow each other where it left by an exception, and nothing was lost. */
static bool goes_on(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u)
{
	const struct pd_piece *before = t->piece, *here = u->piece;
	enum { LOSSY = PD_AUX_TRUNCATED | PD_AUX_PARTIAL | PD_AUX_COLLISION };

	if (was_unseen(d, f, t, u))
		return false;
	if (before == here)
		return true;
	if (f->stream->of_threads)
		return t->after_exception && !u->late && !(before->flags & LOSSY) && !(here->flags & PD_AUX_PARTIAL) &&
		       before->origin.time >= d->whole_since &&
		       !pd_lost_within(d->input->contents, here->origin.tid, before->origin.time, here->origin.time);
	/* Slices of CPUs that were recorded at the same time, on another CPU. */
	return d->input->has_clock && f->time < before->origin.time;
}

static int begin_stretch(struct demux *d, const struct feed *f, struct track *t, const struct element_unit *u)
{
	struct element lost = { .kind = ELEM_NO_SYNC, .isa = ISA_UNKNOWN, .reason = REASON_INIT };
	bool gap = !t->piece || t->gap || !goes_on(d, f, t, u);

	t->gap = false;
	t->piece = u->piece;
	t->since = f->time;
	t->feed = f;
	if (u->gap && !gap) {
		lost.reason = u->gap_reason;
		gap = true;
	}
	return gap ? tell(d, t, &lost) : 0;
}

static void note_end(struct track *t, const struct element *e)
{
	if (e->kind == ELEM_EXCEPTION)
		t->after_exception = true;
	else if (e->kind == ELEM_RANGE || e->kind == ELEM_RANGE_NOPATH || e->kind == ELEM_NO_IMAGE ||
		 e->kind == ELEM_UNKNOWN_ADDRESS)
		t->after_exception = false;
}

static int tell_unit(struct demux *d, struct feed *f, struct track *t, const struct element_unit *u)
{
	const struct element *e = element_queue_elements(f->queue);
	int rc = 0;

	t->stream.config = f->stream->config;
	d->unsure += u->first && f->unsure;
	if (d->at != t)
		rc = outputs_begin(d->outputs, &t->stream);
	d->at = t;
	if (rc == 0 && (u->first || t->gap || !t->piece))
		rc = begin_stretch(d, f, t, u);
	for (uint32_t i = 0; rc == 0 && i < u->n; i++) {
		note_end(t, &e[i]);
		rc = tell(d, t, &e[i]);
	}
	return rc;
}

static int take_unit(struct demux *d, struct feed *f, const struct element_unit *u)
{
	int rc = 0;

	if (u->first) {
		f->last = f->track;
		f->track = NULL;
		if (!is_wanted(d, f))
			f->track = NULL;
		else if (f->has_tid)
			rc = find_thread(d, f, f->tid, &f->track);
		else if (!d->input->shown && u->code)
			rc = find_unknown(d, f, &f->track);
	}
	if (rc == 0 && f->track && is_shown(d, f, u))
		rc = tell_unit(d, f, f->track, u);
	else if (rc == 0 && f->track)
		f->track->gap = true;
	element_queue_pop(f->queue);
	return rc;
}

/* Its stretch goes out whole. */
static int take_stretch(struct demux *d, struct feed *f, const struct element_unit *u)
{
	int rc;

	do {
		rc = take_unit(d, f, u);
		if (rc == 0)
			rc = element_queue_head(f->queue, &u);
		d->done += stream_decoder_bytes_read(f->queue->decoder) - f->read;
		f->read = stream_decoder_bytes_read(f->queue->decoder);
	} while (rc == 0 && u && !u->first);
	f->weighed = false;
	job_progress(d->input->job, d->done, d->to_do);
	return rc;
}

/* The stream whose next stretch began first; *ret NULL: all have ended. */
static int pick(struct demux *d, struct feed **ret, const struct element_unit **ret_unit)
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
		if (!f->weighed)
			weigh(d, f, u);
		if (*ret && (f->time > (*ret)->time || (f->time == (*ret)->time && f->order >= (*ret)->order)))
			continue;
		*ret = f;
		*ret_unit = u;
	}
	return 0;
}

/* What a CPU did before the first slice that its buffer still has is lost, and could be of any thread. */
static uint64_t whole_since(const struct stream *s)
{
	bool of_cpu = s->cpu != UINT32_MAX && s->of_threads;

	return of_cpu && s->n_pieces && s->pieces[0].offset ? s->pieces[0].origin.time : 0;
}

/*
 * The bytes of several CPUs begin in one place where what was before is written over, but each CPU's can be read from
 * its first synchronisation point on only: what it did before is lost, and could be of any thread.
 */
static int find_in_sync(struct demux *d)
{
	for (size_t i = 0; d->n_feeds > 1 && i < d->n_feeds; i++) {
		struct feed *f = &d->feeds[i];
		const struct stream *s = f->stream;
		const struct element_unit *u;
		int rc;

		if (s->of_threads || !s->n_pieces || !s->pieces[0].offset)
			continue;
		rc = element_queue_head(f->queue, &u);
		if (rc < 0)
			return rc;
		if (u)
			d->in_sync = MAX(d->in_sync, u->has_at ? u->at : u->hi == UINT64_MAX ? u->lo : u->hi);
	}
	return 0;
}

static int open_feeds(struct demux *d)
{
	const struct stream_list *s = &d->input->streams;
	/* Streams are decoded alternately and share the threads. */
	unsigned workers = (unsigned)((input_workers(d->input) + s->n - 1) / MAX(s->n, (size_t)1));

	d->feeds = calloc(s->n + 1, sizeof(*d->feeds));
	d->tracks = calloc(TRACKS_MAX + s->n, sizeof(*d->tracks));
	d->hash = calloc(HASH_SIZE, sizeof(*d->hash));
	if (!d->feeds || !d->tracks || !d->hash)
		return -ENOMEM;
	for (; d->n_feeds < s->n; d->n_feeds++) {
		struct feed *f = &d->feeds[d->n_feeds];
		int rc = element_queue_open(d->input, &s->list[d->n_feeds], workers, &f->queue);

		if (rc < 0)
			return rc;
		f->stream = f->queue->stream;
		d->whole_since = MAX(d->whole_since, whole_since(f->stream));
		d->to_do += f->stream->bytes;
	}
	return 0;
}

static int run(struct demux *d)
{
	struct feed *f = NULL;
	const struct element_unit *u = NULL;
	int rc;

	do {
		rc = pick(d, &f, &u);
		if (rc == 0 && f)
			rc = take_stretch(d, f, u);
	} while (rc == 0 && f);
	for (uint32_t i = 0; rc == 0 && i < d->n_tracks; i++)
		if (d->tracks[i]->piece)
			rc = outputs_end(d->outputs, &d->tracks[i]->stream);
	return rc;
}

static int compare_tracks(const void *left, const void *right)
{
	const struct stream *a = &(*(struct track *const *)left)->stream, *b = &(*(struct track *const *)right)->stream;
	uint64_t x = (uint64_t)(a->cpu != UINT32_MAX) << 32 | (a->cpu != UINT32_MAX ? a->cpu : a->tid);
	uint64_t y = (uint64_t)(b->cpu != UINT32_MAX) << 32 | (b->cpu != UINT32_MAX ? b->cpu : b->tid);

	return (x > y) - (x < y);
}

/* What was told of is counted by thread; bytes, and what was lost of them, for all. */
static void count(struct demux *d, json_object *threads)
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
	int rc = open_feeds(&d);

	if (rc == 0)
		rc = find_in_sync(&d);
	if (rc == 0)
		rc = run(&d);
	if (rc == 0)
		count(&d, threads);
	if (rc == 0 && d.unsure)
		input_warn(input,
			   "%llu stretches of trace have no timestamp: where they stand among what their thread did on "
			   "other CPUs is not certain",
			   (unsigned long long)d.unsure);
	for (size_t i = 0; i < d.n_feeds; i++)
		element_queue_close(d.feeds[i].queue);
	for (uint32_t i = 0; i < d.n_tracks; i++)
		free(d.tracks[i]);
	free(d.tracks);
	free(d.hash);
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
	json_object_array_add(threads, o);
}
