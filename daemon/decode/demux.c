/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "daemon/decode/demux-loss.h"
#include "daemon/decode/demux-place.h"
#include "daemon/decode/demux.h"
#include "lib/base/util.h"

enum {
	THREADS_OPEN = 16384, /* tracks of threads that may be open at a time */
	TRACKS_MAX = 65536,
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
	t->stream.number = d->n_streams++;
	t->stats.sync = UINT64_MAX;
	t->why = REASON_INIT;
	d->tracks[d->n_tracks++] = t;
	*ret = t;
	return 0;
}

static int end_track(struct demux *d, struct track *t)
{
	t->ended = true;
	return t->piece ? outputs_end(d->outputs, &t->stream) : 0;
}

static int close_track(struct demux *d, struct track *t)
{
	TAILQ_REMOVE(&d->open, t, link);
	d->n_open--;
	d->at = d->at == t ? NULL : d->at;
	return end_track(d, t);
}

/*
 * Ends the thread that has not run for the longest time. Outputs keep what they have of it; if it runs again, it begins
 * anew with a gap.
 */
static int end_oldest(struct demux *d)
{
	struct track *t = TAILQ_FIRST(&d->open);

	t->stream.ends_early = true;
	return close_track(d, t);
}

/* Adds a track for a thread. before: the earlier track of the thread, which has ended, or NULL. */
static int add_thread(struct demux *d, const struct feed *f, uint32_t tid, const struct track *before,
		      struct track **ret)
{
	struct stream s = *f->stream;
	uint32_t *number;
	int rc = d->n_open == (d->follows ? DEMUX_FOLLOWED_MAX : THREADS_OPEN) ? end_oldest(d) : 0;

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
	*number = d->n_tracks - 1;
	(*ret)->again = before;
	demux_loss_before_thread(d, *ret);
	TAILQ_INSERT_TAIL(&d->open, *ret, link);
	d->n_open++;
	return 0;
}

/* Finds or adds the track of a thread that runs now; *ret is NULL if there are too many threads. */
static int find_thread(struct demux *d, const struct feed *f, uint32_t tid, struct track **ret)
{
	uint32_t *number = hash_get(&d->threads, tid, 0);
	struct track *t = number ? d->tracks[*number] : NULL;
	int rc;

	*ret = NULL;
	/* In rounds, the caller ends threads. */
	if (t && !t->ended && !d->follows && d->input->has_clock &&
	    schedule_reused(d->input->schedule, tid, t->latest, f->since)) {
		rc = close_track(d, t);
		if (rc < 0)
			return rc;
		t = NULL;
	}
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

	if (!f->cpu_track && !d->follows && d->n_tracks < TRACKS_MAX + d->n_feeds) {
		s.cpu = s.source_cpu != UINT32_MAX ? s.source_cpu : s.cpu;
		rc = add_track(d, &s, &f->cpu_track);
	}
	*ret = f->cpu_track;
	return rc;
}

static int emit_element(struct demux *d, struct track *t, const struct element *e)
{
	decode_stats_add_element(&t->stats, e);
	return outputs_element(d->outputs, e);
}

static int begin_stretch(struct demux *d, const struct feed *f, struct track *t, const struct element_unit *u)
{
	struct element lost = { .kind = ELEM_NO_SYNC, .isa = ISA_UNKNOWN };
	enum element_reason why = t->again && !t->piece ? REASON_LOST : REASON_INIT;
	bool gap = !t->piece || t->gap || !demux_loss_none(d, f, t, u, &why);

	lost.reason = t->gap ? t->why : why;
	t->gap = false;
	t->why = REASON_INIT;
	t->piece = u->piece;
	t->since = t->latest = f->since;
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

static int consume_unit(struct demux *d, struct feed *f, const struct element_unit *u)
{
	struct track *lacking;
	bool gap = false;
	int rc = 0;

	if (!u->n) {
		if (u->lost)
			demux_loss_of_stretch(d, f, u);
		else
			demux_loss_of_slice(d, f, u);
		f->track = NULL;
		element_queue_pop(f->queue);
		return 0;
	}
	if (u->first && f->certain && demux_place_is_ambiguous(d, f, &gap))
		f->certain = false;
	/* It has a track from now on, which may lack this. */
	if (u->first && f->has_tid && !f->certain && demux_place_is_wanted(d, f) && demux_place_is_targets(d, f))
		rc = find_thread(d, f, f->tid, &lacking);
	if (rc < 0)
		return rc;
	if (u->code && !f->certain)
		demux_loss_of_stretch(d, f, u);
	if (u->first) {
		d->unordered += f->unordered && !f->certain && demux_place_is_targets(d, f);
		f->last = f->track;
		f->track = NULL;
		if (!demux_place_is_wanted(d, f))
			f->track = NULL;
		else if (f->certain && demux_place_is_targets(d, f))
			rc = find_thread(d, f, f->tid, &f->track);
		else if (!f->certain && !d->input->shown && u->code)
			rc = find_cpu_track(d, f, &f->track);
		if (gap && f->certain && f->track)
			f->track->gap = true;
	}
	if (rc == 0 && f->track && demux_place_is_shown(d, f, u))
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
	if (!d->follows)
		job_progress(d->input->job, d->bytes_done, d->bytes_total);
	return rc;
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
			demux_loss_before_piece(d, f, u);
			demux_place_stretch(d, f, u);
		}
		if (*ret && (f->time > (*ret)->time || (f->time == (*ret)->time && f->order >= (*ret)->order)))
			continue;
		*ret = f;
		*ret_unit = u;
	}
	return 0;
}

static int open_feeds(struct demux *d)
{
	const struct stream_list *s = &d->input->streams;
	/* Streams are decoded alternately and share the threads. */
	unsigned workers = (unsigned)((input_workers(d->input) + s->n - 1) / MAX(s->n, (size_t)1));

	d->feeds = calloc(s->n + 1, sizeof(*d->feeds));
	if (!d->tracks)
		d->tracks = calloc(TRACKS_MAX + (d->follows ? 0 : s->n), sizeof(struct track *));
	if (!d->feeds || !d->tracks)
		return -ENOMEM;
	for (; d->n_feeds < s->n; d->n_feeds++) {
		struct feed *f = &d->feeds[d->n_feeds];
		int rc = element_queue_open(d->input, &s->list[d->n_feeds], workers, &f->queue);

		if (rc < 0)
			return rc;
		f->stream = f->queue->stream;
		d->bytes_total += f->stream->bytes;
	}
	demux_loss_init(d);
	return 0;
}

static void close_feeds(struct demux *d)
{
	for (size_t i = 0; i < d->n_feeds; i++) {
		decode_stats_sum(d->stats, stream_decoder_stats(d->feeds[i].queue->decoder));
		element_queue_close(d->feeds[i].queue);
		buf_done(&d->feeds[i].timeless.threads);
	}
	free(d->feeds);
	d->feeds = NULL;
	d->n_feeds = 0;
}

/* Removes the tracks that have ended, and what the others have of the input. */
static int remove_ended(struct demux *d)
{
	uint32_t n = 0, *number;
	int rc = 0;

	hash_clear(&d->threads);
	for (uint32_t i = 0; i < d->n_tracks; i++) {
		struct track *t = d->tracks[i];

		if (t->ended) {
			decode_stats_sum(d->stats, &t->stats);
			free(t);
			continue;
		}
		rc = rc < 0 ? rc : hash_find(&d->threads, t->stream.tid, 0, &number);
		if (rc >= 0)
			*number = n;
		t->stream.name = "";
		t->stream.pieces = NULL;
		d->tracks[n++] = t;
	}
	d->n_tracks = n;
	return rc < 0 ? rc : 0;
}

static int consume_feeds(struct demux *d)
{
	struct feed *f = NULL;
	const struct element_unit *u = NULL;
	int rc;

	do {
		rc = find_earliest(d, &f, &u);
		if (rc == 0 && f)
			rc = consume_stretch(d, f, u);
	} while (rc == 0 && f);
	return rc;
}

int demux_round(struct demux *d, struct input *input, uint64_t until)
{
	int rc;

	d->input = input;
	d->by_records = input->has_clock && (d->follows || schedule_has_switches(input->schedule));
	rc = open_feeds(d);
	if (rc == 0)
		rc = consume_feeds(d);
	if (rc == 0 && d->follows)
		rc = demux_loss_end_round(d, until);
	close_feeds(d);
	d->rounds++;
	return rc < 0 || !d->follows ? rc : remove_ended(d);
}

int demux_end_thread(struct demux *d, uint32_t tid, uint64_t time)
{
	struct track *t, *next;
	bool ended = false, reused = false;
	int rc = 0;

	for (t = TAILQ_FIRST(&d->open); t && rc == 0; t = next) {
		next = TAILQ_NEXT(t, link);
		if (tid != UINT32_MAX && t->stream.tid != tid)
			continue;
		reused = t->latest > time;
		if (reused)
			continue;
		ended = true;
		rc = close_track(d, t);
	}
	if (!reused)
		demux_loss_end_thread(d, tid);
	return rc < 0 || !ended ? rc : remove_ended(d);
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
}

int demux_new(struct outputs *outputs, struct decode_stats *stats, struct demux **ret)
{
	struct demux *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->outputs = outputs;
	d->stats = stats;
	d->follows = true;
	d->fails_since = UINT64_MAX;
	TAILQ_INIT(&d->open);
	*ret = d;
	return 0;
}

struct demux *demux_free(struct demux *d)
{
	if (!d)
		return NULL;
	for (uint32_t i = 0; i < d->n_tracks; i++)
		free(d->tracks[i]);
	free(d->tracks);
	hash_done(&d->threads);
	hash_done(&d->ends);
	buf_done(&d->off);
	free(d);
	return NULL;
}

void demux_warn(const struct demux *d, struct input *input)
{
	if (d->unordered)
		input_warn(
		    input,
		    "%llu stretches of trace have no timestamp: their order relative to execution on other CPUs is not "
		    "certain, so that their threads lack them",
		    (unsigned long long)d->unordered);
	if (d->left_out)
		input_warn(
		    input,
		    "more than %d threads ran: those that began last, %llu intervals of execution, are left out; "
		    "--thread selects one of them",
		    TRACKS_MAX, (unsigned long long)d->left_out);
}

/* What a thread executed last may be missing. */
static int emit_loss_at_end(struct demux *d, struct track *t)
{
	const struct element lost = { .kind = ELEM_NO_SYNC, .isa = ISA_UNKNOWN, .reason = REASON_UNTRACED };
	int rc;

	if (!t->piece || t->stream.cpu != UINT32_MAX || !demux_loss_untraced(d, t, UINT64_MAX))
		return 0;
	rc = outputs_begin(d->outputs, &t->stream);
	return rc < 0 ? rc : emit_element(d, t, &lost);
}

/* Ends all tracks, also those of CPUs, in their order. */
static int end_tracks(struct demux *d)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < d->n_tracks; i++) {
		if (d->tracks[i]->ended)
			continue;
		rc = emit_loss_at_end(d, d->tracks[i]);
		if (rc == 0)
			rc = end_track(d, d->tracks[i]);
	}
	return rc;
}

int demux_run(struct input *input, struct outputs *outputs, struct decode_stats *stats, json_object *threads)
{
	struct demux *d;
	int rc = demux_new(outputs, stats, &d);

	if (rc < 0)
		return rc;
	d->follows = false;
	rc = demux_round(d, input, UINT64_MAX);
	if (rc == 0)
		rc = end_tracks(d);
	if (rc == 0)
		add_statistics(d, threads);
	if (rc == 0)
		demux_warn(d, input);
	stats->gaps[GAP_TYPE_LOST] += d->left_out;
	demux_free(d);
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
