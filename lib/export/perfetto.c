/* SPDX-License-Identifier: MIT */
/*
 * Perfetto's own format. The protobuf is written by hand. A file is a list of packets. The packets of one thread are a
 * sequence with its own interned names, its own incremental clock and a default track. Field numbers are those of
 * perfetto/protos/perfetto/trace/.
 */
#include <zlib.h>

#include "lib/export/out.h"
#include "lib/export/perfetto.h"
#include "lib/export/protobuf.h"
#include "lib/export/walk.h"

enum {
	TRACE_PACKET = FIELD(1, WIRE_BYTES),

	PACKET_CLOCK_SNAPSHOT = FIELD(6, WIRE_BYTES),
	PACKET_TIMESTAMP = FIELD(8, WIRE_VARINT),
	PACKET_SEQUENCE = FIELD(10, WIRE_VARINT),
	PACKET_TRACK_EVENT = FIELD(11, WIRE_BYTES),
	PACKET_INTERNED = FIELD(12, WIRE_BYTES),
	PACKET_FLAGS = FIELD(13, WIRE_VARINT),
	PACKET_CLOCK = FIELD(58, WIRE_VARINT),
	PACKET_DEFAULTS = FIELD(59, WIRE_BYTES),
	PACKET_COMPRESSED = FIELD(50, WIRE_BYTES),
	PACKET_TRACK = FIELD(60, WIRE_BYTES),
	PACKET_ATTRIBUTES = FIELD(126, WIRE_BYTES),

	FLAG_CLEARED = 1, /* interned names are invalid from here on */
	FLAG_NEEDS_STATE = 2,

	CLOCK_SNAPSHOT_CLOCK = FIELD(1, WIRE_BYTES),
	CLOCK_SNAPSHOT_PRIMARY = FIELD(2, WIRE_VARINT),
	CLOCK_ID = FIELD(1, WIRE_VARINT),
	CLOCK_TIME = FIELD(2, WIRE_VARINT),
	CLOCK_INCREMENTAL = FIELD(3, WIRE_VARINT),
	CLOCK_ID_REALTIME = 1,
	CLOCK_ID_MONOTONIC = 3,
	CLOCK_ID_OWN = 64, /* first ID that a sequence may define */

	DEFAULTS_TRACK_EVENT = FIELD(11, WIRE_BYTES),
	DEFAULTS_CLOCK = FIELD(58, WIRE_VARINT),

	TRACK_UUID = FIELD(1, WIRE_VARINT),
	TRACK_NAME = FIELD(2, WIRE_BYTES),
	TRACK_PARENT = FIELD(5, WIRE_VARINT),
	TRACK_COUNTER = FIELD(8, WIRE_BYTES),
	TRACK_PROCESS = FIELD(3, WIRE_BYTES),
	TRACK_THREAD = FIELD(4, WIRE_BYTES),
	PROCESS_PID = FIELD(1, WIRE_VARINT),
	PROCESS_NAME = FIELD(6, WIRE_BYTES),
	THREAD_PID = FIELD(1, WIRE_VARINT),
	THREAD_TID = FIELD(2, WIRE_VARINT),
	THREAD_NAME = FIELD(5, WIRE_BYTES),

	EVENT_ANNOTATION = FIELD(4, WIRE_BYTES),
	EVENT_TYPE = FIELD(9, WIRE_VARINT),
	EVENT_NAME = FIELD(10, WIRE_VARINT),
	EVENT_TRACK = FIELD(11, WIRE_VARINT),
	EVENT_TEXT = FIELD(23, WIRE_BYTES),
	EVENT_COUNT = FIELD(30, WIRE_VARINT),
	EVENT_SOURCE = FIELD(34, WIRE_VARINT),
	TYPE_BEGIN = 1,
	TYPE_END = 2,
	TYPE_INSTANT = 3,
	TYPE_COUNTER = 4,

	ANNOTATION_NAME = FIELD(10, WIRE_BYTES),
	ANNOTATION_UINT = FIELD(3, WIRE_VARINT),
	ANNOTATION_INT = FIELD(4, WIRE_VARINT),
	ANNOTATION_STRING = FIELD(6, WIRE_BYTES),

	INTERNED_NAME = FIELD(2, WIRE_BYTES),
	INTERNED_SOURCE = FIELD(4, WIRE_BYTES),
	SOURCE_IID = FIELD(1, WIRE_VARINT),
	SOURCE_FILE = FIELD(2, WIRE_BYTES),
	SOURCE_FUNCTION = FIELD(3, WIRE_BYTES),
	SOURCE_LINE = FIELD(4, WIRE_VARINT),
	NAME_IID = FIELD(1, WIRE_VARINT),
	NAME_TEXT = FIELD(2, WIRE_BYTES),

	ATTRIBUTES_ONE = FIELD(1, WIRE_BYTES),
	ATTRIBUTE_KEY = FIELD(1, WIRE_BYTES),
	ATTRIBUTE_INT = FIELD(2, WIRE_VARINT),
	ATTRIBUTE_STRING = FIELD(3, WIRE_BYTES),
};

enum { FIRST_THREAD_TRACK = 1, LANES = 32 };

struct perfetto_writer {
	struct out out;
	const struct export_walk *walk;
	struct export_result *result;
	struct buf parts[4]; /* nested messages whose length is not yet known */
	uint64_t sequence;
	uint64_t time;     /* of the sequence's last packet */
	uint8_t *interned; /* bit set of names: functions, gap kinds, mark kinds, ending, trigger */
	size_t interned_size;
	const struct store_thread *thread;
	bool has_mark; /* the trigger is still to be written in this thread */
	uint64_t mark_time;
	char mark[WALK_TRIGGER_SIZE];
	uint64_t others;    /* tracks of processes, spans and counters so far */
	uint64_t processes; /* the track of the first process; 0: none is written yet */
	uint32_t pid;       /* of the last one */
	uint64_t hidden;    /* calls of the thread that are too deep */
};

/* Begins an empty message of this level; message_end() adds it to the message above. */
static struct buf *message_begin(struct perfetto_writer *w, unsigned level)
{
	buf_clear(&w->parts[level]);
	return &w->parts[level];
}

static void message_end(struct perfetto_writer *w, struct buf *into, unsigned field, unsigned level)
{
	if (buf_error(&w->parts[level]))
		w->out.error = buf_error(&w->parts[level]);
	put_bytes(into, field, w->parts[level].data, w->parts[level].size);
}

static void end_packet(struct perfetto_writer *w)
{
	message_end(w, &w->out.buf, TRACE_PACKET, 0);
	out_flush_if_full(&w->out);
}

static void put_attribute(struct perfetto_writer *w, const char *key, const char *text, uint64_t number)
{
	struct buf *b = message_begin(w, 2);

	put_text(b, ATTRIBUTE_KEY, key);
	if (text)
		put_text(b, ATTRIBUTE_STRING, text);
	else
		put_number(b, ATTRIBUTE_INT, number);
	message_end(w, &w->parts[1], ATTRIBUTES_ONE, 2);
}

static void write_attributes(struct perfetto_writer *w, const struct store *s)
{
	uint64_t gaps = 0, slices = 0, unexplained = 0, bound = 0;

	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		gaps += t->gaps;
		slices += t->slices;
		unexplained += t->unexplained;
		bound = MAX(bound, t->bound);
	}
	message_begin(w, 0);
	message_begin(w, 1);
	if (store_meta(s, "id"))
		put_attribute(w, "csight_snapshot", store_meta(s, "id"), 0);
	put_attribute(w, "csight_program", store_meta(s, "program") ? store_meta(s, "program") : "", 0);
	put_attribute(w, "csight_covers", w->result->cut ? "the last part" : "everything asked for", 0);
	put_attribute(w, "csight_since_ns", NULL, w->result->since);
	put_attribute(w, "csight_until_ns", NULL, w->result->until);
	put_attribute(w, "csight_slices_recorded", NULL, slices);
	put_attribute(w, "csight_gaps_recorded", NULL, gaps);
	put_attribute(w, "csight_unexplained", NULL, unexplained);
	put_attribute(w, "csight_quality_percent", NULL, store_quality(s, SIZE_MAX) / 100);
	put_attribute(w, "csight_time_bound_ns", bound == UINT64_MAX ? "unknown" : NULL, bound);
	if (store_meta(s, "ended"))
		put_attribute(w, "csight_ended", store_meta(s, "ended"), 0);
	if (store_meta(s, "trigger"))
		put_attribute(w, "csight_trigger", store_meta(s, "trigger"), 0);
	if (store_meta(s, "clock"))
		put_attribute(w, "csight_clock", store_meta(s, "clock"), 0);
	message_end(w, &w->parts[0], PACKET_ATTRIBUTES, 1);
	end_packet(w);
}

/* Returns the number of a new track that is not a thread's. */
static uint64_t new_track(struct perfetto_writer *w)
{
	return FIRST_THREAD_TRACK + store_threads(w->walk->store) + w->others++;
}

/* Writes the process of a thread, unless it was that of the last thread, too. */
static void write_process(struct perfetto_writer *w, size_t thread)
{
	const struct store_process p = store_process_of(w->walk->store, thread);
	uint64_t track;

	if (w->processes && p.pid == w->pid)
		return;
	track = new_track(w);
	w->processes = w->processes ? w->processes : track;
	w->pid = p.pid;
	put_number(message_begin(w, 2), PROCESS_PID, p.pid);
	put_text(&w->parts[2], PROCESS_NAME, p.program);
	put_number(message_begin(w, 1), TRACK_UUID, track);
	message_end(w, &w->parts[1], TRACK_PROCESS, 2);
	message_begin(w, 0);
	message_end(w, &w->parts[0], PACKET_TRACK, 1);
	end_packet(w);
}

static void put_clock(struct perfetto_writer *w, unsigned clock, uint64_t time, bool incremental)
{
	put_number(message_begin(w, 2), CLOCK_ID, clock);
	put_number(&w->parts[2], CLOCK_TIME, time);
	if (incremental)
		put_number(&w->parts[2], CLOCK_INCREMENTAL, 1);
	message_end(w, &w->parts[1], CLOCK_SNAPSHOT_CLOCK, 2);
}

/* Writes the first packets of a thread: its track and the defaults of its other packets. */
static void begin_thread(struct perfetto_writer *w, const struct store *s, size_t index, uint64_t time)
{
	const struct store_thread *t = store_thread(s, index);
	uint64_t realtime = store_realtime(s, time), track = FIRST_THREAD_TRACK + index;

	w->sequence = 1 + index;
	w->time = time;
	w->hidden = 0;
	memset(w->interned, 0, w->interned_size);

	write_process(w, index);
	put_number(message_begin(w, 2), THREAD_PID, w->pid);
	put_number(&w->parts[2], THREAD_TID, walk_track(t));
	put_text(&w->parts[2], THREAD_NAME, t->name);
	put_number(message_begin(w, 1), TRACK_UUID, track);
	message_end(w, &w->parts[1], TRACK_THREAD, 2);
	message_begin(w, 0);
	message_end(w, &w->parts[0], PACKET_TRACK, 1);
	end_packet(w);

	put_number(message_begin(w, 0), PACKET_SEQUENCE, w->sequence);
	put_number(&w->parts[0], PACKET_FLAGS, FLAG_CLEARED);
	message_begin(w, 1);
	put_clock(w, CLOCK_ID_OWN, time, true);
	put_clock(w, CLOCK_ID_MONOTONIC, time, false);
	if (realtime)
		put_clock(w, CLOCK_ID_REALTIME, realtime, false);
	put_number(&w->parts[1], CLOCK_SNAPSHOT_PRIMARY, CLOCK_ID_MONOTONIC);
	message_end(w, &w->parts[0], PACKET_CLOCK_SNAPSHOT, 1);
	put_number(message_begin(w, 2), EVENT_TRACK, track);
	put_number(message_begin(w, 1), DEFAULTS_CLOCK, CLOCK_ID_OWN);
	message_end(w, &w->parts[1], DEFAULTS_TRACK_EVENT, 2);
	message_end(w, &w->parts[0], PACKET_DEFAULTS, 1);
	end_packet(w);
}

static void put_annotation(struct perfetto_writer *w, const char *name, const char *text, uint64_t number)
{
	struct buf *b = message_begin(w, 2);

	put_text(b, ANNOTATION_NAME, name);
	if (text)
		put_text(b, ANNOTATION_STRING, text);
	else
		put_number(b, ANNOTATION_UINT, number);
	message_end(w, &w->parts[1], EVENT_ANNOTATION, 2);
}

/*
 * Returns the function if its source file is known, else NULL. Its source location has the same interned ID as its
 * name.
 */
static const struct store_function *function_with_source(const struct perfetto_writer *w, size_t name)
{
	const struct store_function *f = store_function(w->walk->store, name);

	return f && f->file[0] ? f : NULL;
}

static void put_source(struct perfetto_writer *w, size_t name, const struct store_function *f)
{
	char where[512];

	snprintf(where, sizeof(where), "0x%jx in %.400s", (uintmax_t)f->address, f->image);
	put_number(message_begin(w, 3), SOURCE_IID, name + 1);
	put_text(&w->parts[3], SOURCE_FILE, f->file);
	/* The slice has the name already; this field holds address and image, for which there is no other. */
	put_text(&w->parts[3], SOURCE_FUNCTION, where);
	put_number(&w->parts[3], SOURCE_LINE, f->line);
	message_end(w, &w->parts[2], INTERNED_SOURCE, 3);
}

static void put_interned(struct perfetto_writer *w, size_t name, const char *text)
{
	put_number(message_begin(w, 3), NAME_IID, name + 1);
	put_text(&w->parts[3], NAME_TEXT, text);
	message_begin(w, 2);
	message_end(w, &w->parts[2], INTERNED_NAME, 3);
	if (function_with_source(w, name))
		put_source(w, name, function_with_source(w, name));
	message_end(w, &w->parts[0], PACKET_INTERNED, 2);
	w->interned[name / 8] |= (uint8_t)(1u << name % 8);
}

static bool is_interned(const struct perfetto_writer *w, size_t name)
{
	return w->interned[name / 8] >> name % 8 & 1;
}

/* Determines the name of an event. Returns its text, or NULL if the sequence has it interned. */
static const char *event_name(const struct perfetto_writer *w, const struct store_event *e, size_t *ret_name,
			      char instant[64])
{
	size_t functions = store_functions(w->walk->store);

	*ret_name = e->type == STORE_GAP    ? functions + e->kind % STORE_GAP_KINDS
		    : e->type == STORE_MARK ? functions + STORE_GAP_KINDS + e->kind % MARK_KINDS
					    : e->frame.function;
	if (is_interned(w, *ret_name))
		return NULL;
	if (e->type == STORE_ENTER)
		return store_function(w->walk->store, e->frame.function)->name;
	if (e->type == STORE_GAP)
		snprintf(instant, 64, "trace gap (%s)", calls_gap_str(e->kind));
	else
		snprintf(instant, 64, "%s", calls_mark_str(e->kind));
	return instant;
}

void perfetto_reason(const struct store_event *e, bool cut, const char **ret_name, const char **ret_text)
{
	bool begins = e->type == STORE_ENTER, plain;

	plain = begins ? e->kind == CALL_PLAIN || e->kind == CALL_SYSCALL
		       : e->kind == LEAVE_RETURN || e->kind == LEAVE_TAIL;
	*ret_name = *ret_text = NULL;
	if (plain && !cut)
		return;
	*ret_name = begins ? "begins" : "ends";
	if (cut) {
		*ret_text = "beyond this file";
	} else if (begins && e->kind == CALL_INFERRED) {
		*ret_text = "before the trace";
	} else if (!begins && e->kind == LEAVE_END) {
		*ret_text = "unfinished";
	} else {
		*ret_name = begins ? "entered by" : "left by";
		*ret_text = begins ? calls_kind_str(e->kind) : calls_leave_str(e->kind);
	}
}

/* Returns true if an event needs no annotations. */
static bool is_plain(const struct store_event *e, bool cut)
{
	const char *name = NULL, *text;

	if (e->type == STORE_ENTER || e->type == STORE_LEAVE)
		perfetto_reason(e, cut, &name, &text);
	return (e->type == STORE_ENTER || e->type == STORE_LEAVE) && !name;
}

/* Adds the call site. The last component of the path is enough, and keeps the file small. */
static void put_inlined(struct perfetto_writer *w, const struct store_site *site)
{
	const char *slash = strrchr(site->file, '/');
	char where[256];

	snprintf(where, sizeof(where), "%.200s:%u", slash ? slash + 1 : site->file, site->line);
	put_annotation(w, "inlined at", site->file[0] ? where : "?", 0);
}

static void put_annotations(struct perfetto_writer *w, const struct store_event *e, bool cut)
{
	const char *name, *text;

	if (e->type == STORE_GAP)
		put_annotation(w, "duration ns", NULL, e->until - e->time);
	if (e->type != STORE_ENTER && e->type != STORE_LEAVE)
		return;
	perfetto_reason(e, cut, &name, &text);
	if (e->type == STORE_ENTER && !cut && e->frame.site != STORE_NO_SITE)
		put_inlined(w, store_site(w->walk->store, e->frame.site));
	if (name && (e->type != STORE_ENTER || e->frame.site == STORE_NO_SITE || e->kind == CALL_INFERRED || cut))
		put_annotation(w, name, text, 0);
}

static bool is_trigger(const struct perfetto_writer *w, const struct store_event *e)
{
	return e->type == STORE_ENTER && walk_is_trigger(w->walk, w->thread, &e->frame, e->depth);
}

static void write_event(struct perfetto_writer *w, const struct store_event *e, bool cut)
{
	uint64_t left_out = walk_left_out(e, &w->hidden);
	char instant[64];
	const char *text;
	size_t name = 0;

	message_begin(w, 0);
	put_number(&w->parts[0], PACKET_TIMESTAMP, e->time - w->time);
	put_number(&w->parts[0], PACKET_SEQUENCE, w->sequence);
	put_number(&w->parts[0], PACKET_FLAGS, FLAG_NEEDS_STATE);
	if (e->type != STORE_LEAVE) {
		text = event_name(w, e, &name, instant);
		if (text)
			put_interned(w, name, text);
	}
	message_begin(w, 1);
	put_number(&w->parts[1], EVENT_TYPE,
		   e->type == STORE_ENTER   ? TYPE_BEGIN
		   : e->type == STORE_LEAVE ? TYPE_END
					    : TYPE_INSTANT);
	if (e->type != STORE_LEAVE)
		put_number(&w->parts[1], EVENT_NAME, name + 1);
	if (e->type == STORE_ENTER && function_with_source(w, name))
		put_number(&w->parts[1], EVENT_SOURCE, name + 1);
	if (!is_plain(e, cut))
		put_annotations(w, e, cut);
	if (left_out)
		put_annotation(w, WALK_LEFT_OUT, NULL, left_out);
	if (is_trigger(w, e))
		put_annotation(w, "trigger", w->walk->trigger.condition, 0);
	message_end(w, &w->parts[0], PACKET_TRACK_EVENT, 1);
	end_packet(w);
}

/* Fast path of nearly all packets: they have at most 64 bytes, so every length fits one byte. */
static void write_plain(struct perfetto_writer *w, const struct store_event *e)
{
	uint8_t *packet = buf_reserve(&w->out.buf, 64), *to, *event;

	if (!packet)
		return;
	to = packet + 2;
	*to++ = PACKET_TIMESTAMP;
	to = buf_put_varint(to, e->time - w->time);
	*to++ = PACKET_SEQUENCE;
	to = buf_put_varint(to, w->sequence);
	*to++ = PACKET_FLAGS;
	*to++ = FLAG_NEEDS_STATE;
	*to++ = PACKET_TRACK_EVENT;
	event = to++;
	*to++ = EVENT_TYPE;
	*to++ = e->type == STORE_ENTER ? TYPE_BEGIN : TYPE_END;
	if (e->type == STORE_ENTER) {
		*to++ = EVENT_NAME;
		to = buf_put_varint(to, (uint64_t)e->frame.function + 1);
		if (function_with_source(w, e->frame.function)) {
			to = buf_put_varint(to, EVENT_SOURCE);
			to = buf_put_varint(to, (uint64_t)e->frame.function + 1);
		}
	}
	*event = (uint8_t)(to - event - 1);
	packet[0] = TRACE_PACKET;
	packet[1] = (uint8_t)(to - packet - 2);
	buf_grew(&w->out.buf, (size_t)(to - packet));
	out_flush_if_full(&w->out);
}

enum { OWN_ENDING, OWN_TRIGGER, OWN_TEXTS };

/* Writes an instant of the thread, `after` ns after its last event. own: OWN_ENDING or OWN_TRIGGER; text: its name. */
static void write_instant(struct perfetto_writer *w, unsigned own, const char *text, uint64_t after)
{
	size_t name = store_functions(w->walk->store) + STORE_GAP_KINDS + MARK_KINDS + own;

	message_begin(w, 0);
	put_number(&w->parts[0], PACKET_TIMESTAMP, after);
	put_number(&w->parts[0], PACKET_SEQUENCE, w->sequence);
	put_number(&w->parts[0], PACKET_FLAGS, FLAG_NEEDS_STATE);
	put_interned(w, name, text);
	message_begin(w, 1);
	put_number(&w->parts[1], EVENT_TYPE, TYPE_INSTANT);
	put_number(&w->parts[1], EVENT_NAME, name + 1);
	message_end(w, &w->parts[0], PACKET_TRACK_EVENT, 1);
	end_packet(w);
}

/* Writes the trigger, unless it comes after this time. */
static void write_mark(struct perfetto_writer *w, uint64_t time)
{
	if (!w->has_mark || w->mark_time >= time)
		return;
	w->mark_time = MAX(w->mark_time, w->time);
	write_instant(w, OWN_TRIGGER, w->mark, w->mark_time - w->time);
	w->time = w->mark_time;
	w->has_mark = false;
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct perfetto_writer *w = user;
	bool deepest = e->depth == WALK_LEVELS_MAX - 1;

	if (walk_is_too_deep(e, &w->hidden))
		return 0;
	write_mark(w, e->time);
	w->result->slices += e->type == STORE_ENTER;
	w->result->gaps += e->type == STORE_GAP;
	if (is_plain(e, cut) && !deepest && !is_trigger(w, e) &&
	    (e->type == STORE_LEAVE || is_interned(w, e->frame.function)))
		write_plain(w, e);
	else
		write_event(w, e, cut);
	w->time = e->time;
	return w->out.error;
}

static void put_note(struct perfetto_writer *w, unsigned type, uint64_t track, uint64_t time,
		     const struct store_note *n)
{
	char text[WALK_NOTE_SIZE];

	put_number(message_begin(w, 0), PACKET_TIMESTAMP, time);
	put_number(&w->parts[0], PACKET_CLOCK, CLOCK_ID_MONOTONIC);
	put_number(&w->parts[0], PACKET_SEQUENCE, w->sequence + store_threads(w->walk->store));
	put_number(message_begin(w, 1), EVENT_TYPE, type);
	put_number(&w->parts[1], EVENT_TRACK, track);
	if (type != TYPE_END) {
		put_text(&w->parts[1], EVENT_TEXT, walk_note_text(n, text));
		put_text(message_begin(w, 2), ANNOTATION_NAME, "value");
		put_number(&w->parts[2], ANNOTATION_INT, (uint64_t)n->value);
		message_end(w, &w->parts[1], EVENT_ANNOTATION, 2);
	}
	message_end(w, &w->parts[0], PACKET_TRACK_EVENT, 1);
	end_packet(w);
}

/* Adds a track beneath that of a thread or of the process; returns its number. */
static uint64_t add_track(struct perfetto_writer *w, const char *name, uint64_t parent, bool counter)
{
	uint64_t uuid = new_track(w);

	put_number(message_begin(w, 1), TRACK_UUID, uuid);
	put_text(&w->parts[1], TRACK_NAME, name);
	put_number(&w->parts[1], TRACK_PARENT, parent);
	message_begin(w, 2);
	if (counter)
		message_end(w, &w->parts[1], TRACK_COUNTER, 2);
	message_begin(w, 0);
	message_end(w, &w->parts[0], PACKET_TRACK, 1);
	end_packet(w);
	return uuid;
}

/*
 * Notes are on the track of the thread; spans, which may cross calls, on tracks beneath it, each without overlaps.
 * Where there are very many, each has a track of its own.
 */
static void write_notes(struct perfetto_writer *w, size_t thread)
{
	uint64_t track = FIRST_THREAD_TRACK + thread, lanes[LANES + 1], until[LANES + 1];
	const struct store_note *n;
	size_t at = 0, n_lanes = 0;

	while ((n = walk_note(w->walk, w->thread, &at))) {
		size_t lane = 0;

		if (n->kind != STORE_NOTE_SPAN && n->kind != STORE_NOTE_OPEN) {
			put_note(w, TYPE_INSTANT, track, n->time, n);
			continue;
		}
		while (lane < n_lanes && until[lane] > n->time)
			lane++;
		if (lane == n_lanes)
			lanes[lane] = add_track(w, "spans", track, false);
		n_lanes = MIN(MAX(n_lanes, lane + 1), (size_t)LANES);
		until[lane] = n->kind == STORE_NOTE_OPEN ? UINT64_MAX : n->until;
		put_note(w, TYPE_BEGIN, lanes[lane], n->time, n);
		if (n->kind == STORE_NOTE_SPAN)
			put_note(w, TYPE_END, lanes[lane], n->until, n);
	}
}

/* Each counter of a thread has a track beneath that of the thread; those of no thread are beneath the process. */
static void write_counters(struct perfetto_writer *w, const struct store_thread *t, uint64_t parent)
{
	uint64_t tracks[WALK_COUNTERS_MAX];
	struct walk_counters counters = { .n = 0 };
	const struct store_note *n;
	bool inside, new;
	size_t at = 0;

	while ((n = walk_sample(w->walk, t, &at, &inside))) {
		size_t i = inside ? walk_counter(&counters, n->label, &new) : WALK_COUNTERS_MAX;

		if (i == WALK_COUNTERS_MAX)
			continue;
		if (new)
			tracks[i] = add_track(w, n->label, parent, true);
		put_number(message_begin(w, 0), PACKET_TIMESTAMP, n->time);
		put_number(&w->parts[0], PACKET_CLOCK, CLOCK_ID_MONOTONIC);
		put_number(&w->parts[0], PACKET_SEQUENCE, w->sequence + store_threads(w->walk->store));
		put_number(message_begin(w, 1), EVENT_TYPE, TYPE_COUNTER);
		put_number(&w->parts[1], EVENT_TRACK, tracks[i]);
		put_number(&w->parts[1], EVENT_COUNT, (uint64_t)n->value);
		message_end(w, &w->parts[0], PACKET_TRACK_EVENT, 1);
		end_packet(w);
	}
}

/* Compresses packets into one packet. */
static int compress_packets(const struct buf *piece, struct buf *ret)
{
	_cleanup_buf_ struct buf packed = { 0 }, packet = { 0 };
	uLongf size = compressBound(piece->size);
	uint8_t *to = buf_reserve(&packed, size);

	if (!to || compress2(to, &size, piece->data, piece->size, Z_BEST_SPEED) != Z_OK)
		return -ENOMEM;
	put_bytes(&packet, PACKET_COMPRESSED, to, size);
	put_bytes(ret, TRACE_PACKET, packet.data, packet.size);
	return buf_error(&packet) ? buf_error(&packet) : buf_error(ret);
}

static void perfetto_writer_done(struct perfetto_writer *w)
{
	out_done(&w->out);
	for (size_t i = 0; i < ELEMENTS(w->parts); i++)
		buf_done(&w->parts[i]);
	free(w->interned);
}

void perfetto_description(const struct store *s, const struct export_result *result, struct buf *ret)
{
	struct export_result copy = *result;
	_cleanup_(perfetto_writer_done) struct perfetto_writer w = { .out.fd = -1, .result = &copy };

	write_attributes(&w, s);
	buf_add(ret, w.out.buf.data, w.out.buf.size);
}

static int perfetto_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct export_walk walk;
	_cleanup_(perfetto_writer_done) struct perfetto_writer w = { .out = { .fd = fd, .pack = compress_packets },
								     .walk = &walk,
								     .result = ret };
	struct walk_sink sink = { on_event, &w };
	int rc = 0;

	walk_begin(&walk, s, o, ret);
	w.interned_size = (store_functions(s) + STORE_GAP_KINDS + MARK_KINDS + OWN_TEXTS) / 8 + 1;
	w.interned = calloc(w.interned_size, 1);
	if (!w.interned)
		return -ENOMEM;
	write_attributes(&w, s);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		if (!walk_wants(&walk, t))
			continue;
		begin_thread(&w, s, i, MAX(t->first, walk.since));
		w.thread = t;
		w.has_mark = walk_trigger(&walk, t, &w.mark_time, w.mark);
		rc = walk_thread(&walk, i, &sink);
		write_mark(&w, UINT64_MAX);
		write_notes(&w, i);
		write_counters(&w, t, FIRST_THREAD_TRACK + i);
		if (walk_ending(&walk, t))
			write_instant(&w, OWN_ENDING, walk_ending(&walk, t), 0);
	}
	if (!w.processes)
		write_process(&w, 0);
	if (rc == 0 && walk.tid < 0)
		write_counters(&w, NULL, w.processes);
	return rc < 0 ? rc : out_finish(&w.out);
}

const struct export_ops export_perfetto = { "perfetto", ".pftrace", "a timeline for ui.perfetto.dev", perfetto_write };
