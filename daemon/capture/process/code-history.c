/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/capture/process/code-history.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum {
	RECORDS_MAX = 32 << 10,
	OBSERVATIONS_MAX = 64 << 10,
	CHANGES_MAX = 256 << 10,
	REVOKED_MAX = 16 << 20, /* records looked at for those that are revoked */
	STEPS_MAX = 4 << 20,    /* of a sweep; each takes some 20 ns */
	MOVED_IN_STEP = 32,     /* spans that are moved together in the time of a step */
	SPANS_FIRST = 64,
};

#define NO_OBSERVATION UINT32_MAX

struct observation {
	uint64_t start, end, from, to;
	enum code_observation kind;
	uint8_t *bytes;
};

struct code_history {
	bool data, described;
	struct code_record *records; /* by time */
	size_t n_records, room_records;
	struct observation *observations; /* by the end of their time */
	size_t n_observations, room_observations;
	uint64_t bytes;
	/* time of the last search for unrecorded mappings; UINT64_MAX: no search is unconfirmed */
	uint64_t seen;
	bool instead;     /* records of that time may be revoked */
	uint64_t revoked; /* records looked at for that, since the last confirmation */
};

/* The address space at one moment, while records and observations are applied in order of time. */
struct sweep {
	const struct code_history *history;
	/* Spans by address: n at the begin of the list, n_above at its end. A record applies at the gap between. */
	struct code_span *list;
	size_t n, n_above, room, steps;
	struct code_change *outs;
	size_t n_outs, room_outs;
	bool collecting; /* changes are collected */
	int error;
};

int code_history_new(bool data, struct code_history **ret)
{
	struct code_history *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->data = data;
	h->seen = UINT64_MAX;
	*ret = h;
	return 0;
}

void code_history_clear(struct code_history *h)
{
	for (size_t i = 0; i < h->n_observations; i++)
		free(h->observations[i].bytes);
	free(h->observations);
	free(h->records);
	*h = (struct code_history){ .data = h->data, .described = h->described, .seen = UINT64_MAX };
}

struct code_history *code_history_free(struct code_history *h)
{
	if (h)
		code_history_clear(h);
	free(h);
	return NULL;
}

void code_history_set_described(struct code_history *h, bool described)
{
	h->described = described;
}

/* Returns the index of the first record of this time, or a later one. */
static size_t first_record(const struct code_history *h, uint64_t time)
{
	size_t low = 0, high = h->n_records;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (h->records[middle].time < time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A mapping found in place of another was caused by this later record; it did not exist before. */
static void revoke_found(struct code_history *h, const struct code_record *r)
{
	size_t from = first_record(h, h->seen), kept = from, i = from;

	for (; i < h->n_records && h->records[i].time == h->seen; i++) {
		const struct code_record *f = &h->records[i];

		if (!f->instead || f->start >= r->end || f->end <= r->start)
			h->records[kept++] = *f;
	}
	if (kept < i)
		memmove(&h->records[kept], &h->records[i], (h->n_records - i) * sizeof(*h->records));
	h->n_records -= i - kept;
	h->revoked += i - from;
}

int code_history_record(struct code_history *h, const struct code_record *r)
{
	size_t at;

	if (r->start >= r->end)
		return 0;
	if (r->found) {
		h->instead = (h->instead && h->seen == r->time) || r->instead;
		h->seen = r->time;
	} else if (r->time > h->seen && h->instead) {
		if (h->revoked > REVOKED_MAX)
			return -ENOSPC;
		revoke_found(h, r);
	}
	at = h->n_records;
	if (h->n_records >= RECORDS_MAX)
		return -ENOSPC;
	if (array_reserve(h->records, h->n_records, &h->room_records) < 0)
		return -ENOMEM;
	while (at && h->records[at - 1].time > r->time)
		at--;
	memmove(&h->records[at + 1], &h->records[at], (h->n_records - at) * sizeof(*h->records));
	h->records[at] = *r;
	h->n_records++;
	return 0;
}

/* Owns o->bytes from now on, also on failure. */
static int add_observation(struct code_history *h, const struct observation *o)
{
	if (o->start >= o->end || h->n_observations >= OBSERVATIONS_MAX ||
	    array_reserve(h->observations, h->n_observations, &h->room_observations) < 0) {
		free(o->bytes);
		return o->start >= o->end ? 0 : h->n_observations >= OBSERVATIONS_MAX ? -ENOSPC : -ENOMEM;
	}
	h->observations[h->n_observations++] = *o;
	if (o->bytes)
		h->bytes += o->end - o->start;
	return 0;
}

int code_history_observe(struct code_history *h, enum code_observation kind, uint64_t start, uint64_t end,
			 uint64_t from, uint8_t *bytes)
{
	return add_observation(h, &(struct observation){ start, end, from, UINT64_MAX, kind, bytes });
}

void code_history_confirm(struct code_history *h, uint64_t now)
{
	for (size_t i = h->n_observations; i-- > 0 && h->observations[i].to == UINT64_MAX;)
		h->observations[i].to = now;
	/* Later records do not revoke what was found, also where they are added to another history. */
	for (size_t i = h->instead ? first_record(h, h->seen) : h->n_records;
	     i < h->n_records && h->records[i].time == h->seen; i++)
		h->records[i].instead = false;
	h->seen = UINT64_MAX;
	h->instead = false;
	h->revoked = 0;
}

static void emit_change(struct sweep *s, enum code_change_kind kind, uint64_t time, const struct code_span *seg,
			const uint8_t *bytes)
{
	struct code_change *last = s->n_outs ? &s->outs[s->n_outs - 1] : NULL;

	if (!s->collecting)
		return;
	/* Merge the parts of a record that spans had split. */
	if (last && kind != CHANGE_CODE && last->kind == kind && last->time == time && last->end == seg->start &&
	    last->image == seg->image && last->path == seg->path &&
	    (kind != CHANGE_FILE || last->offset + (last->end - last->start) == seg->offset)) {
		last->end = seg->end;
		return;
	}
	if (s->n_outs >= CHANGES_MAX || array_reserve(s->outs, s->n_outs, &s->room_outs) < 0) {
		s->error = s->n_outs >= CHANGES_MAX ? -E2BIG : -ENOMEM;
		return;
	}
	s->outs[s->n_outs] = (struct code_change){ .time = time,
						   .start = seg->start,
						   .end = seg->end,
						   .offset = seg->offset,
						   .kind = kind,
						   .image = seg->image,
						   .path = seg->path,
						   .bytes = bytes,
						   .order = (uint32_t)s->n_outs };
	s->n_outs++;
}

/* Emits what remains unknown about a span that will not change any more. */
static void emit_unknown_rest(struct sweep *s, const struct code_span *seg)
{
	if (seg->kind == CODE_MEMORY && !seg->writable && !seg->known && !seg->closed && !s->history->described)
		emit_change(s, CHANGE_UNKNOWN, seg->since, seg, NULL);
}

/* True if the second continues the first, so that both are one. */
static bool continues(const struct code_span *a, const struct code_span *b)
{
	return a->end == b->start && a->since == b->since && a->open_since == b->open_since && a->kind == b->kind &&
	       a->writable == b->writable && a->known == b->known && a->closed == b->closed && a->image == b->image &&
	       a->observation == b->observation && a->path == b->path &&
	       (a->kind != CODE_FILE || a->offset - a->start == b->offset - b->start);
}

/* Makes room for one span more between both parts of the list. */
static void widen_gap(struct sweep *s)
{
	size_t room = s->room ? 2 * s->room : SPANS_FIRST;
	struct code_span *list = reallocarray(s->list, room, sizeof(*list));

	if (!list) {
		s->error = -ENOMEM;
		return;
	}
	memmove(&list[room - s->n_above], &list[s->room - s->n_above], s->n_above * sizeof(*list));
	s->list = list;
	s->room = room;
}

/* A record for memory that was mapped in many parts makes it one: the next one has no parts to look at. */
static void add_span(struct sweep *s, const struct code_span *seg)
{
	if (seg->start >= seg->end || s->error)
		return;
	if (s->n && continues(&s->list[s->n - 1], seg)) {
		s->list[s->n - 1].end = seg->end;
		return;
	}
	if (s->n + s->n_above == s->room)
		widen_gap(s);
	if (!s->error)
		s->list[s->n++] = *seg;
}

static struct code_span sub_span(const struct code_span *seg, uint64_t start, uint64_t end)
{
	struct code_span p = *seg;

	p.offset += start - p.start;
	p.start = start;
	p.end = end;
	return p;
}

static bool same_backing(const struct code_span *seg, const struct code_record *r)
{
	if (seg->kind != r->kind || seg->image != r->image)
		return false;
	return seg->kind != CODE_FILE || seg->offset - seg->start == r->offset - r->start;
}

/* Applies a record to [start, end), which lies within seg; NULL: nothing was mapped there. */
static void apply_to_span(struct sweep *s, const struct code_record *r, uint64_t start, uint64_t end,
			  const struct code_span *seg)
{
	const struct code_history *h = s->history;
	bool same = seg && same_backing(seg, r);
	struct code_span now = { .start = start,
				 .end = end,
				 .offset = r->offset + (start - r->start),
				 .since = r->time,
				 .kind = r->kind,
				 .writable = r->writable,
				 .image = r->image,
				 .observation = NO_OBSERVATION,
				 .path = r->path };

	if (start >= end)
		return;
	if (r->kind == CODE_NONE && seg && seg->kind == CODE_MEMORY && h->described) {
		now = *seg;
		now.closed = true;
		add_span(s, &now);
		return;
	}
	if (r->kind >= CODE_NONE) {
		if (seg) {
			emit_unknown_rest(s, seg);
			emit_change(s, r->kind == CODE_LOST ? CHANGE_UNKNOWN : CHANGE_NONE, r->time, &now, NULL);
		}
		return;
	}
	if (same && !seg->closed && seg->writable == r->writable && (r->found || (h->data && !r->writable))) {
		add_span(s, seg);
		return;
	}
	if (seg)
		emit_unknown_rest(s, seg);
	if (same && seg->writable && !r->writable)
		now.open_since = seg->open_since ? seg->open_since : seg->since;
	add_span(s, &now);
	if (r->kind == CODE_FILE) {
		emit_change(s, CHANGE_FILE, r->time, &now, NULL);
	} else if (!(same && h->described)) {
		emit_change(s, CHANGE_MEMORY, r->time, &now, NULL);
		if (r->writable)
			emit_change(s, CHANGE_UNKNOWN, r->time, &now, NULL);
	}
}

/* Returns the index of the first of n spans that ends after addr. */
static size_t find_span(const struct code_span *list, size_t n, uint64_t addr)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void count_steps(struct sweep *s, size_t n)
{
	s->steps += n;
	if (s->steps > STEPS_MAX && !s->error)
		s->error = -E2BIG;
}

/* Moves spans from one part of the list to the other, until the lower one has those that end at addr or before. */
static void move_gap(struct sweep *s, uint64_t addr)
{
	size_t below = find_span(s->list, s->n, addr), moved = s->n - below;

	if (moved) {
		s->n_above += moved;
		memmove(&s->list[s->room - s->n_above], &s->list[below], moved * sizeof(*s->list));
		s->n = below;
	} else if (s->n_above) {
		moved = find_span(&s->list[s->room - s->n_above], s->n_above, addr);
		memmove(&s->list[s->n], &s->list[s->room - s->n_above], moved * sizeof(*s->list));
		s->n += moved;
		s->n_above -= moved;
	}
	count_steps(s, 1 + moved / MOVED_IN_STEP);
}

/* Takes the next span above the gap if it begins before end. */
static bool take_span(struct sweep *s, uint64_t end, struct code_span *ret)
{
	size_t next = s->room - s->n_above;

	if (s->error || !s->n_above || s->list[next].start >= end)
		return false;
	*ret = s->list[next];
	s->n_above--;
	count_steps(s, 1);
	return true;
}

static void apply_record(struct sweep *s, const struct code_record *r)
{
	uint64_t at = r->start;
	struct code_span seg, cut;

	move_gap(s, r->start);
	while (take_span(s, r->end, &seg)) {
		uint64_t start = MAX(seg.start, r->start), end = MIN(seg.end, r->end);

		cut = sub_span(&seg, seg.start, start);
		add_span(s, &cut);
		apply_to_span(s, r, at, start, NULL);
		cut = sub_span(&seg, start, end);
		apply_to_span(s, r, start, end, &cut);
		cut = sub_span(&seg, end, seg.end);
		add_span(s, &cut);
		at = end;
	}
	apply_to_span(s, r, at, r->end, NULL);
}

static void count_observation(struct sweep *s, const struct observation *l, uint32_t index, struct code_span *seg)
{
	if (l->kind == CODE_CLEAN ? seg->kind != CODE_FILE || seg->writable : seg->writable != (l->kind == CODE_DIRTY))
		return;
	if (l->kind == CODE_DIRTY && (seg->kind != CODE_FILE || seg->known))
		return;
	seg->known = true;
	seg->observation = index;
	if (l->kind == CODE_CLEAN)
		return;
	if (l->kind == CODE_DIRTY) {
		emit_change(s, CHANGE_UNKNOWN, seg->since, seg, NULL);
		return;
	}
	if (seg->open_since)
		emit_change(s, CHANGE_UNKNOWN, seg->open_since, seg, NULL);
	emit_change(s, CHANGE_CODE, seg->since, seg, l->bytes + (seg->start - l->start));
}

static void apply_observation(struct sweep *s, uint32_t index)
{
	const struct observation *l = &s->history->observations[index];
	struct code_span seg, cut;

	move_gap(s, l->start);
	while (take_span(s, l->end, &seg)) {
		uint64_t start = MAX(seg.start, l->start), end = MIN(seg.end, l->end);

		if (seg.since > l->from || seg.closed) {
			add_span(s, &seg);
			continue;
		}
		cut = sub_span(&seg, seg.start, start);
		add_span(s, &cut);
		cut = sub_span(&seg, start, end);
		count_observation(s, l, index, &cut);
		add_span(s, &cut);
		cut = sub_span(&seg, end, seg.end);
		add_span(s, &cut);
	}
}

/* Applies records and observations up to and including a time. */
static void run_sweep(struct sweep *s, uint64_t until)
{
	const struct code_history *h = s->history;
	size_t r = 0;

	for (size_t l = 0; l <= h->n_observations && !s->error; l++) {
		uint64_t to = l < h->n_observations ? MIN(h->observations[l].to, until) : until;

		for (; r < h->n_records && h->records[r].time <= to && !s->error; r++)
			apply_record(s, &h->records[r]);
		if (l < h->n_observations && h->observations[l].to <= until && !s->error)
			apply_observation(s, (uint32_t)l);
	}
	if (!s->error)
		move_gap(s, UINT64_MAX);
}

static void sweep_done(struct sweep *s)
{
	free(s->list);
	free(s->outs);
}

int code_history_spans(const struct code_history *h, struct code_span **ret, size_t *ret_n)
{
	_cleanup_(sweep_done) struct sweep s = { .history = h };

	run_sweep(&s, UINT64_MAX);
	if (s.error)
		return s.error;
	*ret = TAKE_PTR(s.list);
	*ret_n = s.n;
	return 0;
}

static int compare_outs(const void *left, const void *right)
{
	const struct code_change *a = left, *b = right;
	int x = a->kind < CHANGE_UNKNOWN ? CHANGE_NONE : a->kind, y = b->kind < CHANGE_UNKNOWN ? CHANGE_NONE : b->kind;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return x != y ? x - y : (a->order > b->order) - (a->order < b->order);
}

int code_history_changes(const struct code_history *h, struct code_change **ret, size_t *ret_n)
{
	_cleanup_(sweep_done) struct sweep s = { .history = h, .collecting = true };

	run_sweep(&s, UINT64_MAX);
	for (size_t i = 0; i < s.n; i++)
		emit_unknown_rest(&s, &s.list[i]);
	if (s.error)
		return s.error;
	if (s.n_outs)
		qsort(s.outs, s.n_outs, sizeof(*s.outs), compare_outs);
	*ret = TAKE_PTR(s.outs);
	*ret_n = s.n_outs;
	return 0;
}

/* Adds the part of an observation that applies to a span. */
static int keep_observation(struct code_history *h, const struct observation *old, const struct code_span *seg)
{
	struct observation o = { seg->start, seg->end, old->from, old->to, old->kind, NULL };

	if (old->bytes) {
		o.bytes = malloc(seg->end - seg->start);
		if (!o.bytes)
			return -ENOMEM;
		memcpy(o.bytes, old->bytes + (seg->start - old->start), seg->end - seg->start);
	}
	return add_observation(h, &o);
}

static int compare_by_observation(const void *left, const void *right)
{
	const struct code_span *a = left, *b = right;

	return (a->observation > b->observation) - (a->observation < b->observation);
}

static int compare_by_time(const void *left, const void *right)
{
	const struct code_span *a = left, *b = right;

	return (a->since > b->since) - (a->since < b->since);
}

static int rebuild_records(struct code_history *h, struct code_history *base, const struct sweep *s)
{
	int rc = 0;

	/* Sorted by time, so that code_history_record() appends each record and moves none. */
	if (s->n)
		qsort(s->list, s->n, sizeof(*s->list), compare_by_time);
	for (size_t i = 0; i < s->n && rc == 0; i++) {
		const struct code_span *seg = &s->list[i];
		struct code_record r = { .time = seg->since,
					 .start = seg->start,
					 .end = seg->end,
					 .offset = seg->offset,
					 .kind = seg->kind,
					 .writable = seg->writable,
					 .image = seg->image,
					 .path = seg->path };

		rc = code_history_record(base, &r);
	}
	if (s->n)
		qsort(s->list, s->n, sizeof(*s->list), compare_by_observation);
	for (size_t i = 0; i < s->n && rc == 0; i++)
		if (s->list[i].observation != NO_OBSERVATION)
			rc = keep_observation(base, &h->observations[s->list[i].observation], &s->list[i]);
	return rc;
}

int code_history_forget(struct code_history *h, uint64_t before)
{
	_cleanup_(sweep_done) struct sweep s = { .history = h };
	struct code_history *base, old;
	int rc = code_history_new(h->data, &base);

	if (rc < 0)
		return rc;
	base->described = h->described;
	run_sweep(&s, before);
	rc = s.error ? s.error : rebuild_records(h, base, &s);
	for (size_t i = 0; i < h->n_records && rc == 0; i++)
		if (h->records[i].time > before)
			rc = code_history_record(base, &h->records[i]);
	for (size_t i = 0; i < h->n_observations && rc == 0; i++)
		if (h->observations[i].to > before) {
			rc = add_observation(base, &h->observations[i]);
			h->observations[i].bytes = NULL;
		}
	/* Replace the contents even after an error: observations have been moved to the new history. */
	old = *h;
	*h = *base;
	*base = old;
	code_history_free(base);
	return rc;
}

/* Addresses at which there has been code. */
struct extent {
	uint64_t start, end;
};

static int compare_extents(const void *left, const void *right)
{
	const struct extent *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

/* Lists them in order, and apart from each other. Returns their number. */
static size_t list_code(const struct code_history *h, struct extent *ret)
{
	size_t n = 0, joined = 0;

	for (size_t i = 0; i < h->n_records; i++)
		if (h->records[i].kind < CODE_NONE)
			ret[n++] = (struct extent){ h->records[i].start, h->records[i].end };
	if (n)
		qsort(ret, n, sizeof(*ret), compare_extents);
	for (size_t i = 0; i < n; i++)
		if (joined && ret[i].start <= ret[joined - 1].end)
			ret[joined - 1].end = MAX(ret[joined - 1].end, ret[i].end);
		else
			ret[joined++] = ret[i];
	return joined;
}

static bool overlaps(const struct extent *list, size_t n, const struct code_record *r)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].end <= r->start)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && list[low].start < r->end;
}

void code_history_prune(struct code_history *h, uint64_t before)
{
	_cleanup_free_ struct extent *code = calloc(h->n_records + 1, sizeof(*code));
	size_t n = code ? list_code(h, code) : 0, kept = 0;

	for (size_t i = 0; code && i < h->n_records; i++) {
		const struct code_record *r = &h->records[i];

		if (r->kind != CODE_NONE || r->time >= before || overlaps(code, n, r))
			h->records[kept++] = *r;
	}
	if (code)
		h->n_records = kept;
}

uint64_t code_history_image_time(const struct code_history *h, uint32_t image)
{
	for (size_t i = 0; i < h->n_records; i++)
		if (h->records[i].image == image)
			return h->records[i].time;
	return UINT64_MAX;
}

void code_history_each_image(const struct code_history *h, void (*fn)(void *data, uint32_t image), void *data)
{
	for (size_t i = 0; i < h->n_records; i++)
		if (h->records[i].image != CODE_NO_IMAGE)
			fn(data, h->records[i].image);
}

uint64_t code_history_middle(const struct code_history *h)
{
	return h->n_records ? h->records[h->n_records / 2].time : 0;
}

bool code_history_crowded(const struct code_history *h)
{
	return h->n_records > RECORDS_MAX / 4 * 3;
}

uint64_t code_history_bytes(const struct code_history *h)
{
	return h->bytes;
}

uint64_t code_history_memory(const struct code_history *h)
{
	return h->bytes + h->room_records * sizeof(*h->records) + h->room_observations * sizeof(*h->observations);
}
