/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "tests/export/pftrace.h"

/* Perfetto ends the slice around one that is deeper. */
enum { NAMES_MAX = 1 << 17, DEPTH_MAX = 512 };

/* A field of a message: a number or bytes. */
struct field {
	uint64_t number, value;
	struct reader bytes;
	bool is_bytes;
};

struct sequence {
	uint64_t id, clock, default_clock, default_track;
	bool begun, has_own_clock;
	const char **names; /* by iid */
	size_t n_names;
	struct sequence *next;
};

struct chunk {
	struct chunk *next;
	char text[];
};

struct state {
	struct pf_trace *t;
	struct sequence *sequences;
	struct chunk *chunks;
	size_t cap_slices;
	struct track {
		size_t *stack; /* open slices */
		size_t depth, capacity;
		uint64_t last;
	} * tracks;                         /* parallel to t->threads */
	uint64_t process_pid, process_uuid; /* the last one; that of the first one */
	const char *process;
	bool packed;
};

static int fail(struct state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int fail(struct state *s, const char *fmt, ...)
{
	int n = snprintf(s->t->error, sizeof(s->t->error), "packet %ju: ", (uintmax_t)s->t->packets);
	va_list args;

	va_start(args, fmt);
	vsnprintf(s->t->error + n, sizeof(s->t->error) - (size_t)n, fmt, args);
	va_end(args);
	return -EBADMSG;
}

/* Returns 1 with a field, or 0 at the end. */
static int next_field(struct state *s, struct reader *r, struct field *ret)
{
	uint64_t tag, size;

	if (!rd_left(r))
		return 0;
	if (rd_varint(r, &tag) < 0)
		return fail(s, "a truncated tag");
	*ret = (struct field){ .number = tag >> 3 };
	switch (tag & 7) {
	case 0:
		return rd_varint(r, &ret->value) < 0 ? fail(s, "a truncated number") : 1;
	case 1:
		return rd_u64(r, &ret->value) < 0 ? fail(s, "a truncated number") : 1;
	case 2:
		ret->is_bytes = true;
		if (rd_varint(r, &size) < 0 || rd_sub(r, size, &ret->bytes) < 0)
			return fail(s, "field %ju is longer than its message", (uintmax_t)ret->number);
		return 1;
	default:
		return fail(s, "wire type %ju", (uintmax_t)(tag & 7));
	}
}

static const char *text_of(struct state *s, const struct field *f)
{
	size_t size = rd_left(&f->bytes);
	struct chunk *c = malloc(sizeof(*c) + size + 1);

	memcpy(c->text, f->bytes.at, size);
	c->text[size] = 0;
	c->next = s->chunks;
	s->chunks = c;
	return c->text;
}

static struct sequence *sequence_of(struct state *s, uint64_t id)
{
	struct sequence *q;

	for (q = s->sequences; q; q = q->next) {
		if (q->id == id)
			return q;
	}
	q = calloc(1, sizeof(*q));
	q->id = id;
	q->next = s->sequences;
	s->sequences = q;
	return q;
}

static int read_clock(struct state *s, struct reader r, uint64_t *id, uint64_t *time, bool *incremental)
{
	struct field f;
	int rc;

	*id = *time = 0;
	*incremental = false;
	while ((rc = next_field(s, &r, &f)) == 1) {
		if (f.number == 1)
			*id = f.value;
		else if (f.number == 2)
			*time = f.value;
		else if (f.number == 3)
			*incremental = f.value;
		else
			return fail(s, "clock field %ju", (uintmax_t)f.number);
	}
	return rc;
}

static int read_clocks(struct state *s, struct sequence *q, struct reader r)
{
	uint64_t id, time, own = 0, monotonic = UINT64_MAX, realtime = 0, primary = 0;
	bool incremental;
	struct field f;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		if (f.number == 2) {
			primary = f.value;
			continue;
		}
		rc = read_clock(s, f.bytes, &id, &time, &incremental);
		if (rc < 0)
			return rc;
		if (id == 3)
			monotonic = time;
		if (id == 1)
			realtime = time;
		if (id < 64)
			continue;
		if (!incremental)
			return fail(s, "the sequence's clock is not incremental");
		own = time;
		q->clock = time;
		q->has_own_clock = true;
	}
	if (rc < 0)
		return rc;
	if (primary != 3 || own != monotonic)
		return fail(s, "the sequence's clock does not begin at CLOCK_MONOTONIC");
	s->t->realtime = realtime ? (int64_t)(realtime - monotonic) : 0;
	return 0;
}

static int read_defaults(struct state *s, struct sequence *q, struct reader r)
{
	struct field f, inner;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		if (f.number == 58) {
			q->default_clock = f.value;
		} else if (f.number == 11) {
			while ((rc = next_field(s, &f.bytes, &inner)) == 1) {
				if (inner.number == 11)
					q->default_track = inner.value;
			}
			if (rc < 0)
				return rc;
		}
	}
	return rc;
}

static int read_interned(struct state *s, struct sequence *q, struct reader r)
{
	struct field f, inner;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		uint64_t iid = 0;
		const char *text = NULL;

		/* Source locations; the name of the slice identifies the function. */
		if (f.number == 4)
			continue;
		if (f.number != 2)
			return fail(s, "interned field %ju", (uintmax_t)f.number);
		while ((rc = next_field(s, &f.bytes, &inner)) == 1) {
			if (inner.number == 1)
				iid = inner.value;
			else if (inner.number == 2)
				text = text_of(s, &inner);
		}
		if (rc < 0)
			return rc;
		if (!iid || iid >= NAMES_MAX || !text)
			return fail(s, "an interned name without iid or text");
		if (iid >= q->n_names) {
			q->names = realloc(q->names, 2 * iid * sizeof(*q->names));
			memset(q->names + q->n_names, 0, (2 * iid - q->n_names) * sizeof(*q->names));
			q->n_names = 2 * iid;
		}
		if (q->names[iid])
			return fail(s, "iid %ju is defined twice", (uintmax_t)iid);
		q->names[iid] = text;
	}
	return rc;
}

/* Makes *t a track of a thread. */
static bool find_thread(const struct state *s, uint64_t uuid, struct pf_thread *t)
{
	for (size_t i = 0; i < s->t->n_threads; i++)
		if (s->t->threads[i].uuid == uuid && !s->t->threads[i].counter) {
			t->pid = s->t->threads[i].pid;
			t->tid = s->t->threads[i].tid;
			t->process = s->t->threads[i].process;
			return true;
		}
	return false;
}

static int read_track(struct state *s, struct reader r)
{
	struct pf_thread t = { 0 };
	struct field f, inner;
	bool is_thread = false, is_process = false;
	uint64_t parent = 0;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		if (f.number == 1)
			t.uuid = f.value;
		if (f.number == 2)
			t.name = text_of(s, &f);
		if (f.number == 5)
			parent = f.value;
		t.counter |= f.number == 8;
		if (f.number != 3 && f.number != 4)
			continue;
		is_thread = f.number == 4;
		is_process = !is_thread;
		while ((rc = next_field(s, &f.bytes, &inner)) == 1) {
			if (!is_thread && inner.number == 1)
				s->process_pid = inner.value;
			else if (!is_thread && inner.number == 6)
				s->process = text_of(s, &inner);
			else if (inner.number == 1)
				t.pid = inner.value;
			else if (inner.number == 2)
				t.tid = inner.value;
			else if (inner.number == 5)
				t.name = text_of(s, &inner);
		}
		if (rc < 0)
			return rc;
	}
	if (rc < 0)
		return rc;
	if (is_process) {
		for (size_t i = 0; i < s->t->n_threads; i++)
			if (s->t->threads[i].pid == s->process_pid)
				return fail(s, "process %ju follows its threads", (uintmax_t)s->process_pid);
		s->process_uuid = s->process_uuid ? s->process_uuid : t.uuid;
		return 0;
	}
	if (!is_thread && !find_thread(s, parent, &t) && !(t.counter && parent == s->process_uuid))
		return fail(s, "a track of no track %ju", (uintmax_t)parent);
	if (is_thread && t.pid == s->process_pid)
		t.process = s->process;
	for (size_t i = 0; i < s->t->n_threads; i++) {
		if (s->t->threads[i].uuid == t.uuid)
			return fail(s, "track %ju is defined twice", (uintmax_t)t.uuid);
	}
	s->t->threads = realloc(s->t->threads, (s->t->n_threads + 1) * sizeof(t));
	s->tracks = realloc(s->tracks, (s->t->n_threads + 1) * sizeof(*s->tracks));
	s->t->threads[s->t->n_threads] = t;
	memset(&s->tracks[s->t->n_threads++], 0, sizeof(*s->tracks));
	return 0;
}

static int read_attributes(struct state *s, struct reader r)
{
	struct field f, inner;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		struct pf_attribute a = { 0 };

		while ((rc = next_field(s, &f.bytes, &inner)) == 1) {
			if (inner.number == 1)
				a.key = text_of(s, &inner);
			else if (inner.number == 2)
				a.number = inner.value;
			else if (inner.number == 3)
				a.text = text_of(s, &inner);
		}
		if (rc < 0)
			return rc;
		if (!a.key)
			return fail(s, "an attribute without a key");
		s->t->attributes = realloc(s->t->attributes, (s->t->n_attributes + 1) * sizeof(a));
		s->t->attributes[s->t->n_attributes++] = a;
	}
	return rc;
}

/* Appends "key=value" to notes. */
static int read_annotation(struct state *s, struct reader r, char **notes)
{
	const char *key = NULL, *text = NULL;
	char number[24] = "", *more;
	struct field f;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		if (f.number == 10)
			key = text_of(s, &f);
		else if (f.number == 6)
			text = text_of(s, &f);
		else if (f.number == 3)
			snprintf(number, sizeof(number), "%ju", (uintmax_t)f.value);
		else if (f.number == 4)
			snprintf(number, sizeof(number), "%jd", (intmax_t)f.value);
		else
			return fail(s, "annotation field %ju", (uintmax_t)f.number);
	}
	if (rc < 0)
		return rc;
	if (!key || (!text && !number[0]))
		return fail(s, "an annotation without key or value");
	if (asprintf(&more, "%s%s%s=%s", *notes ? *notes : "", *notes ? " " : "", key, text ? text : number) < 0)
		return -ENOMEM;
	free(*notes);
	*notes = more;
	return 0;
}

static int add_slice(struct state *s, const struct pf_slice *slice)
{
	if (s->t->n_slices == s->cap_slices) {
		s->cap_slices = s->cap_slices ? s->cap_slices * 2 : 4096;
		s->t->slices = realloc(s->t->slices, s->cap_slices * sizeof(*s->t->slices));
	}
	s->t->slices[s->t->n_slices++] = *slice;
	return 0;
}

static int begin_slice(struct state *s, struct track *track, struct pf_slice *slice)
{
	slice->depth = (uint32_t)track->depth;
	if (slice->instant)
		return add_slice(s, slice);
	if (track->depth == DEPTH_MAX)
		return fail(s, "too many open slices");
	if (track->depth == track->capacity) {
		track->capacity = track->capacity ? track->capacity * 2 : 256;
		track->stack = realloc(track->stack, track->capacity * sizeof(*track->stack));
	}
	track->stack[track->depth++] = s->t->n_slices;
	return add_slice(s, slice);
}

static int end_slice(struct state *s, struct track *track, uint64_t time, char *notes)
{
	struct pf_slice *slice;
	char *both;

	if (!track->depth) {
		free(notes);
		return fail(s, "END without a BEGIN");
	}
	slice = &s->t->slices[track->stack[--track->depth]];
	slice->dur = time - slice->ts;
	if (notes && slice->notes) {
		if (asprintf(&both, "%s %s", slice->notes, notes) < 0)
			return -ENOMEM;
		free(slice->notes);
		free(notes);
		slice->notes = both;
	} else if (notes) {
		slice->notes = notes;
	}
	return 0;
}

static int read_event(struct state *s, struct sequence *q, struct reader r, uint64_t time)
{
	uint64_t type = 0, iid = 0, source = 0, uuid = q->default_track;
	struct pf_slice slice = { .ts = time };
	char *notes = NULL;
	struct track *track;
	struct field f;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		if (f.number == 9)
			type = f.value;
		else if (f.number == 10)
			iid = f.value;
		else if (f.number == 11)
			uuid = f.value;
		else if (f.number == 23)
			slice.name = text_of(s, &f);
		else if (f.number == 4)
			rc = read_annotation(s, f.bytes, &notes);
		else if (f.number == 34)
			source = f.value;
		else if (f.number == 30)
			slice.value = (int64_t)f.value;
		else
			rc = fail(s, "event field %ju", (uintmax_t)f.number);
		if (rc < 0)
			break;
	}
	for (slice.thread = 0; rc == 0 && slice.thread < s->t->n_threads; slice.thread++) {
		if (s->t->threads[slice.thread].uuid == uuid)
			break;
	}
	if (rc == 0 && slice.thread == s->t->n_threads)
		rc = fail(s, "no track %ju", (uintmax_t)uuid);
	if (rc == 0 && iid && (iid >= q->n_names || !q->names[iid]))
		rc = fail(s, "name %ju is undefined", (uintmax_t)iid);
	if (rc == 0 && source && (type != 1 || source != iid))
		rc = fail(s, "a source location of another function, or of none");
	if (rc == 0 && (type == 4) != s->t->threads[slice.thread].counter)
		rc = fail(s, "an event of type %ju on a track of the other kind", (uintmax_t)type);
	if (rc == 0 && type != 2 && type != 4 && !iid && !slice.name)
		rc = fail(s, "an event without a name");
	if (rc < 0) {
		free(notes);
		return rc;
	}
	track = &s->tracks[slice.thread];
	/* Notes are instants of another sequence. Perfetto sorts these; their depth is not known here. */
	if (time < track->last && type == 3 && !iid) {
		slice.notes = notes;
		slice.instant = true;
		return add_slice(s, &slice);
	}
	if (time < track->last) {
		free(notes);
		return fail(s, "time decreases");
	}
	track->last = time;
	if (type == 2)
		return end_slice(s, track, time, notes);
	if (iid)
		slice.name = q->names[iid];
	slice.notes = notes;
	slice.instant = type == 3;
	slice.counted = type == 4;
	if (slice.counted)
		return add_slice(s, &slice);
	return type == 1 || type == 3 ? begin_slice(s, track, &slice) : fail(s, "event type %ju", (uintmax_t)type);
}

static int read_packets(struct state *s, struct reader *r);

static int read_packed(struct state *s, struct reader r)
{
	uLongf capacity = 0, size = 0;
	struct chunk *c = NULL;
	struct reader all;
	int rc;

	if (s->packed)
		return fail(s, "a compressed packet within another");
	/* The size is known only when inflating succeeds. */
	do {
		capacity = capacity ? capacity * 2 : 1 << 20;
		free(c);
		c = malloc(sizeof(*c) + capacity);
		size = capacity;
		rc = c ? uncompress((uint8_t *)c->text, &size, r.at, rd_left(&r)) : Z_MEM_ERROR;
	} while (rc == Z_BUF_ERROR && capacity < 1 << 26);
	if (rc != Z_OK) {
		free(c);
		return fail(s, "zlib says %d", rc);
	}
	c->next = s->chunks;
	s->chunks = c;
	s->packed = true;
	all = reader_of(c->text, size);
	rc = read_packets(s, &all);
	s->packed = false;
	return rc;
}

static int read_packet(struct state *s, struct reader r)
{
	uint64_t sequence = 0, flags = 0, delta = 0, clock = 0;
	struct field f, clocks = { 0 }, defaults = { 0 }, interned = { 0 }, event = { 0 }, track = { 0 },
			attributes = { 0 };
	struct sequence *q;
	int rc;

	while ((rc = next_field(s, &r, &f)) == 1) {
		switch (f.number) {
		case 6:
			clocks = f;
			break;
		case 8:
			delta = f.value;
			break;
		case 10:
			sequence = f.value;
			break;
		case 11:
			event = f;
			break;
		case 12:
			interned = f;
			break;
		case 13:
			flags = f.value;
			break;
		case 50:
			return f.is_bytes ? read_packed(s, f.bytes) : fail(s, "a compressed packet without bytes");
		case 58:
			clock = f.value;
			break;
		case 59:
			defaults = f;
			break;
		case 60:
			track = f;
			break;
		case 126:
			attributes = f;
			break;
		default:
			return fail(s, "packet field %ju", (uintmax_t)f.number);
		}
	}
	if (rc == 0 && track.is_bytes)
		rc = read_track(s, track.bytes);
	if (rc == 0 && attributes.is_bytes)
		rc = read_attributes(s, attributes.bytes);
	if (rc < 0 || !sequence)
		return rc < 0 || !event.is_bytes ? rc : fail(s, "an event on no sequence");
	q = sequence_of(s, sequence);
	if (flags & 1) {
		free(q->names);
		q->names = NULL;
		q->n_names = 0;
		q->default_clock = q->default_track = 0;
		q->begun = true;
		q->has_own_clock = false;
	}
	if (clocks.is_bytes)
		rc = read_clocks(s, q, clocks.bytes);
	if (rc == 0 && defaults.is_bytes)
		rc = read_defaults(s, q, defaults.bytes);
	if (rc == 0 && interned.is_bytes)
		rc = read_interned(s, q, interned.bytes);
	if (rc < 0 || !event.is_bytes)
		return rc;
	/* Without state, the time is absolute. */
	if (clock == 3 && !flags)
		return read_event(s, q, event.bytes, delta);
	if (!(flags & 2) || !q->begun)
		return fail(s, "an event that needs state, without its flag or before there is any");
	if (!q->has_own_clock || (clock ? clock : q->default_clock) < 64)
		return fail(s, "an event without the sequence's clock");
	q->clock += delta;
	return read_event(s, q, event.bytes, q->clock);
}

static int read_packets(struct state *s, struct reader *r)
{
	struct field f;
	int rc;

	while ((rc = next_field(s, r, &f)) == 1) {
		s->t->packets++;
		rc = f.number == 1 && f.is_bytes ? read_packet(s, f.bytes) : fail(s, "not a packet");
		if (rc < 0)
			return rc;
	}
	return rc;
}

int pf_read(const void *data, size_t size, struct pf_trace *ret)
{
	struct reader r = reader_of(data, size);
	struct state s = { .t = ret };
	int rc;

	*ret = (struct pf_trace){ 0 };
	rc = read_packets(&s, &r);
	for (size_t i = 0; i < ret->n_threads; i++) {
		if (rc == 0 && s.tracks[i].depth)
			rc = fail(&s, "%zu slices have no END", s.tracks[i].depth);
		free(s.tracks[i].stack);
	}
	free(s.tracks);
	while (s.sequences) {
		struct sequence *q = s.sequences;

		s.sequences = q->next;
		free(q->names);
		free(q);
	}
	ret->memory = s.chunks;
	return rc;
}

void pf_done(struct pf_trace *t)
{
	for (size_t i = 0; i < t->n_slices; i++)
		free(t->slices[i].notes);
	while (t->memory) {
		struct chunk *c = t->memory;

		t->memory = c->next;
		free(c);
	}
	free(t->slices);
	free(t->threads);
	free(t->attributes);
}
