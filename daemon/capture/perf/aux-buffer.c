/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/capture/perf/aux-buffer.h"
#include "lib/base/array.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

#ifndef PERF_RECORD_AUX_OUTPUT_HW_ID
#define PERF_RECORD_AUX_OUTPUT_HW_ID 21
#endif

enum { FRAME_SIZE = 16, TRACE_ID_MAX = 0x6f, HW_ID_MAJOR_SHIFT = 60, RECORD_MAX = 256 };

void aux_init(struct aux_buffer *a, uint32_t cpu, uint64_t size, uint8_t trace_id)
{
	*a = (struct aux_buffer){ .cpu = cpu, .fd = -1, .size = size, .trace_id = trace_id };
}

void aux_done(struct aux_buffer *a)
{
	perf_ring_unmap(&a->ring);
	closep(&a->fd);
	free(a->slices);
	*a = (struct aux_buffer){ .fd = -1 };
}

static uint64_t oldest_byte(const struct aux_buffer *a)
{
	return a->end - MIN(a->end, a->size);
}

/* Drops slices that the buffer has overwritten, and compacts the list when more than half of it is unused. */
static void drop_overwritten(struct aux_buffer *a)
{
	uint64_t oldest = oldest_byte(a);

	while (a->first < a->n_slices && (a->slices[a->first].to <= oldest || a->n_slices - a->first > AUX_SLICES_MAX))
		a->first++;
	if (a->first > 64 && a->first > a->n_slices / 2) {
		memmove(a->slices, a->slices + a->first, (a->n_slices - a->first) * sizeof(*a->slices));
		a->n_slices -= a->first;
		a->first = 0;
	}
}

static void add_slice(struct aux_buffer *a, const struct aux_slice *s)
{
	if (array_reserve(a->slices, a->n_slices, &a->room) < 0)
		a->lost++;
	else
		a->slices[a->n_slices++] = *s;
}

/* An empty slice records that this thread ran untraced. */
static void add_empty_slice(struct aux_buffer *a, struct aux_slice *s)
{
	struct aux_slice *last = a->n_slices > a->first ? &a->slices[a->n_slices - 1] : NULL;

	s->begun = s->ended;
	s->from = s->to = a->end;
	if (last && last->from == last->to && last->tid == s->tid)
		*last = *s;
	else
		add_slice(a, s);
	drop_overwritten(a);
}

void aux_note_failure(struct aux_buffer *a, uint64_t since)
{
	a->failed_since = a->failed ? MIN(a->failed_since, since) : since;
	a->failed = true;
}

static void note_untraced(struct aux_buffer *a, const struct perf_record *r)
{
	struct aux_slice s = {
		.flags = PERF_AUX_FLAG_TRUNCATED, .pid = r->origin.pid, .tid = r->origin.tid, .ended = r->origin.time
	};

	a->untraced_since = a->untraced ? a->untraced_since : a->watch.since;
	a->untraced = true;
	add_empty_slice(a, &s);
}

static void fold_switch(struct aux_buffer *a, const struct perf_record *r)
{
	switch (run_watch_switch(&a->watch, r->origin.tid, r->misc & PERF_RECORD_MISC_SWITCH_OUT, r->origin.time)) {
	case RUN_REPEATED:
		return;
	case RUN_UNTRACED:
		if (!a->paused && !a->ended)
			note_untraced(a, r);
		break;
	case RUN_KNOWN:
		break;
	}
	if (a->threads)
		thread_table_fold(a->threads, r);
}

/* Tracing has started: the outage ends, unless begin_outage() finds that this start failed. */
static void end_outage(struct aux_buffer *a, uint64_t time)
{
	struct aux_outage *last = a->n_outages ? &a->outages[a->n_outages - 1] : NULL;

	if (last && last->to == UINT64_MAX)
		last->to = time;
}

static void begin_outage(struct aux_buffer *a, uint64_t time)
{
	struct aux_outage *last = a->n_outages ? &a->outages[a->n_outages - 1] : NULL;

	if (last && (last->to == UINT64_MAX || last->to == a->begun)) {
		last->to = UINT64_MAX;
		return;
	}
	if (a->n_outages == AUX_OUTAGES_MAX) {
		/* The oldest two become one. */
		a->outages[1].from = a->outages[0].from;
		a->n_outages--;
		memmove(a->outages, a->outages + 1, a->n_outages * sizeof(a->outages[0]));
	}
	a->outages[a->n_outages++] = (struct aux_outage){ time, UINT64_MAX };
}

static void fold_slice(struct aux_buffer *a, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	struct aux_slice s = { .pid = r->origin.pid, .tid = r->origin.tid, .ended = r->origin.time };
	uint64_t size;

	if (rd_u64(&body, &s.to) < 0 || rd_u64(&body, &size) < 0 || rd_u64(&body, &s.flags) < 0) {
		a->strange = true;
		return;
	}
	/* Where the buffer is overwritten circularly, the offset is the end of the slice, and else its beginning. */
	a->fills &= !(s.flags & PERF_AUX_FLAG_OVERWRITE);
	s.to += a->fills ? size : 0;
	run_watch_slice(&a->watch, (s.flags & PERF_AUX_FLAG_TRUNCATED) || (a->stopping && s.to >= a->stopped_at));
	if (a->full_at || a->ended)
		return;
	/* The sink stops up to one page early. */
	if (a->fills && s.to + (uint64_t)sysconf(_SC_PAGESIZE) >= a->size)
		a->full_at = s.ended;
	else if (s.flags & PERF_AUX_FLAG_TRUNCATED)
		aux_note_failure(a, s.ended);
	if (size == 0) {
		/* The sink was in use elsewhere. */
		if (s.flags & PERF_AUX_FLAG_TRUNCATED && !a->full_at) {
			a->refused = s.ended;
			begin_outage(a, s.ended);
			add_empty_slice(a, &s);
		}
		return;
	}
	/* The end never decreases. */
	if (s.to < a->end || size > s.to || s.to - size < a->end) {
		a->strange = true;
		if (s.to < a->end || size > s.to)
			return;
		size = s.to - a->end;
	}
	s.from = s.to - size;
	s.begun = a->begun && a->begun <= s.ended ? a->begun : 0;
	s.started = a->started_tid;
	a->begun = 0;
	a->end = s.to;
	a->traces++;
	a->started_empty = 0;
	a->collisions += (s.flags & PERF_AUX_FLAG_COLLISION) && !a->full_at;
	if (size)
		add_slice(a, &s);
	drop_overwritten(a);
}

static void fold_id(struct aux_buffer *a, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	uint64_t id;

	/* The trace ID is in bits 0-7 of major version 0. */
	if (rd_u64(&body, &id) < 0 || id >> HW_ID_MAJOR_SHIFT || (id & 0xff) == 0 || (id & 0xff) > TRACE_ID_MAX) {
		a->strange = true;
		return;
	}
	a->trace_id = (uint8_t)id;
	a->has_id = true;
}

void aux_note_lost(struct aux_buffer *a, uint64_t n)
{
	a->lost += n;
	run_watch_forget(&a->watch);
	if (a->threads)
		thread_table_lost_switches(a->threads, a->newest, a->cpu);
}

void aux_fold(struct aux_buffer *a, const struct perf_record *r)
{
	switch (r->type) {
	case PERF_RECORD_AUX:
		fold_slice(a, r);
		break;
	case PERF_RECORD_ITRACE_START:
		a->starts++;
		a->started_empty++;
		a->started_tid = r->origin.tid;
		a->begun = r->origin.time;
		end_outage(a, a->begun);
		run_watch_start(&a->watch);
		break;
	case PERF_RECORD_AUX_OUTPUT_HW_ID:
		fold_id(a, r);
		break;
	case PERF_RECORD_SWITCH:
		fold_switch(a, r);
		break;
	case PERF_RECORD_LOST:
		aux_note_lost(a, perf_record_lost(r));
		break;
	}
	a->newest = MAX(a->newest, r->origin.time);
}

void aux_end(struct aux_buffer *a, uint64_t time)
{
	a->ended = true;
	while (a->n_slices > a->first) {
		const struct aux_slice *s = &a->slices[a->n_slices - 1];

		if ((s->begun ? s->begun : s->ended) <= time)
			break;
		a->end = s->from;
		a->n_slices--;
	}
}

void aux_fold_all(struct aux_buffer *a, const uint8_t *records, size_t size)
{
	while (size) {
		struct perf_record r;
		int n = perf_record_parse(records, size, &r);

		if (n < 0) {
			a->strange = true;
			break;
		}
		aux_fold(a, &r);
		records += n;
		size -= (size_t)n;
	}
}

void aux_drain(struct aux_buffer *a, struct buf *scratch)
{
	bool full;

	if (!a->ring.page)
		return;
	/* The kernel reports lost records only with the next record, which may come late. */
	full = a->ring.data_size - perf_ring_filled(&a->ring) < RECORD_MAX;
	buf_clear(scratch);
	if (perf_ring_read(&a->ring, scratch) < 0) {
		full = false;
		a->strange = true;
		aux_note_lost(a, 1);
	}
	if (a->log && !a->ended && scratch->size && !buf_error(scratch))
		replay_log_add(a->log, a->number, a->ring.position, scratch->data, scratch->size);
	perf_ring_release(&a->ring);
	if (!buf_error(scratch))
		aux_fold_all(a, scratch->data, scratch->size);
	if (full)
		aux_note_lost(a, 1);
	buf_clear(scratch);
}

uint64_t aux_held(const struct aux_buffer *a, uint64_t *ret_from)
{
	uint64_t from = oldest_byte(a);

	if (a->first == a->n_slices)
		from = a->end;
	else if (a->slices[a->first].from > from)
		from = a->slices[a->first].from;
	*ret_from = from;
	return a->end - from;
}

uint64_t aux_newer(const struct aux_buffer *a, uint64_t since)
{
	size_t low = a->first, high = a->n_slices;

	/* Slices are in the order of their ends. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->slices[middle].ended < since)
			low = middle + 1;
		else
			high = middle;
	}
	return low == a->n_slices ? 0 : a->end - MIN(a->slices[low].from, a->end);
}

/* Returns where to begin in a slice whose beginning is lost: at a multiple of the frame size from its start. */
static uint64_t cut_at(const struct aux_slice *s, uint64_t from)
{
	if (from <= s->from)
		return s->from;
	return s->from + (from - s->from + FRAME_SIZE - 1) / FRAME_SIZE * FRAME_SIZE;
}

static void copy_bytes(const struct aux_buffer *a, uint64_t from, uint64_t to, uint8_t *ret)
{
	for (uint64_t at = from; at < to;) {
		uint64_t place = at & (a->ring.aux_size - 1), size = MIN(to - at, a->ring.aux_size - place);

		memcpy(ret + (at - from), a->ring.aux + place, size);
		at += size;
	}
}

/* Allocates, and copies the bytes [from, to). */
static int begin_ring(const struct aux_buffer *a, uint64_t from, uint64_t to, struct capture_ring *ret)
{
	struct capture_ring c = { .cpu = a->cpu, .from = from, .size = to - from };

	c.slices = calloc(a->n_slices - a->first, sizeof(*c.slices));
	c.data = malloc(c.size);
	if (!c.slices || !c.data) {
		free(c.slices);
		free(c.data);
		return -ENOMEM;
	}
	copy_bytes(a, from, to, c.data);
	*ret = c;
	return 0;
}

static void add_part(const struct aux_buffer *a, const struct aux_slice *s, uint64_t begin, uint64_t end,
		     struct capture_ring *to)
{
	to->slices[to->n_slices++] = (struct pd_aux){ .offset = begin,
						      .size = end - begin,
						      .flags = s->flags | (a->fills ? 0 : PD_AUX_OVERWRITE),
						      .pid = s->pid,
						      .tid = s->tid,
						      .cpu = a->cpu,
						      .time = s->ended };
}

int aux_copy(const struct aux_buffer *a, uint64_t limit, struct capture_ring *ret)
{
	uint64_t from, held = aux_held(a, &from);
	int rc;

	*ret = (struct capture_ring){ .cpu = a->cpu };
	if (held > limit)
		from = a->end - limit;
	if (from == a->end || a->ring.aux_size == 0)
		return 0;
	rc = begin_ring(a, from, a->end, ret);
	for (size_t i = a->first; i < a->n_slices && rc == 0; i++) {
		const struct aux_slice *s = &a->slices[i];
		uint64_t begin = cut_at(s, from);

		if (begin < s->to || (s->from == s->to && s->from >= from))
			add_part(a, s, begin, s->to, ret);
	}
	return rc;
}

int aux_copy_between(const struct aux_buffer *a, uint64_t from, uint64_t to, bool continues, struct capture_ring *ret)
{
	int rc;

	*ret = (struct capture_ring){ .cpu = a->cpu };
	if (from == to || a->ring.aux_size == 0)
		return 0;
	rc = begin_ring(a, from, to, ret);
	for (size_t i = a->first; i < a->n_slices && rc == 0; i++) {
		const struct aux_slice *s = &a->slices[i];
		uint64_t begin = continues ? MAX(s->from, from) : cut_at(s, from), end = MIN(s->to, to);
		struct pd_aux *part;

		if (s->from == s->to ? s->from < from || s->to > to : begin >= end)
			continue;
		add_part(a, s, begin, MAX(begin, end), ret);
		part = &ret->slices[ret->n_slices - 1];
		/* Flags about the end of a slice come with its end. */
		if (end < s->to)
			part->flags &= ~(uint64_t)(PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_COLLISION);
		if (s->from < from)
			part->flags |= continues ? PD_AUX_CONTINUES : PD_AUX_PARTIAL;
	}
	return rc;
}

uint64_t aux_oldest(const struct aux_buffer *a)
{
	return a->first < a->n_slices ? a->slices[a->first].ended : UINT64_MAX;
}

size_t aux_first_behind(const struct aux_buffer *a, uint64_t position)
{
	size_t low = a->first, high = a->n_slices;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->slices[middle].to <= position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct aux_slice *aux_slice_at(const struct aux_buffer *a, uint64_t position)
{
	size_t i = aux_first_behind(a, position);

	return i < a->n_slices && a->slices[i].from <= position ? &a->slices[i] : NULL;
}

void aux_cut(struct capture_ring *ring, uint64_t aux_size, uint64_t head)
{
	uint64_t oldest = head - MIN(head, aux_size);
	size_t kept = 0;

	if (oldest <= ring->from)
		return;
	for (size_t i = 0; i < ring->n_slices; i++) {
		struct pd_aux s = ring->slices[i];
		struct aux_slice whole = { .from = s.offset, .to = s.offset + s.size };
		uint64_t begin = cut_at(&whole, oldest);

		if (begin >= whole.to && (s.size || s.offset < oldest))
			continue;
		s.offset = begin;
		s.size = whole.to - begin;
		ring->slices[kept++] = s;
	}
	ring->n_slices = kept;
}
