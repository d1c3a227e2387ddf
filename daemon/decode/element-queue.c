/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/element-queue.h"

enum {
	STEP = 8 << 10,
	ELEMENTS_MAX = 1 << 16, /* queued while waiting for a timestamp */
};

static size_t unit_count(const struct element_queue *q)
{
	return q->units.size / sizeof(struct element_unit);
}

/* In the kernel, without a context ID: another thread may be running at any time. */
static bool may_switch(const struct element_queue *q)
{
	return q->now.in_kernel && !q->has_tid;
}

static void begin_unit(struct element_queue *q, bool first)
{
	q->now = (struct element_unit){ .first = first,
					.has_tid = q->has_tid,
					.tid = q->tid,
					.lo = q->lo,
					.hi = UINT64_MAX,
					.piece = q->piece,
					.in_kernel = q->now.in_kernel };
}

static void end_unit(struct element_queue *q)
{
	bool first = q->now.first;

	if (q->now.n) {
		buf_add(&q->units, &q->now, sizeof(q->now));
		first = may_switch(q);
	}
	begin_unit(q, first);
}

/* Begins a stretch: another thread may be running from here on. */
static void begin_stretch(struct element_queue *q)
{
	end_unit(q);
	q->now.first = true;
	q->now.in_kernel = false;
	q->between = false;
}

/* True if the stretch has no instructions yet. */
static bool stretch_is_empty(const struct element_queue *q)
{
	return q->now.first && !q->now.code;
}

/* Sets the upper time bound of all units that wait for one. */
static void set_upper_bound(struct element_queue *q, uint64_t time)
{
	struct element_unit *units = (struct element_unit *)q->units.data;

	for (; q->waits < unit_count(q); q->waits++)
		units[q->waits].hi = time;
	q->unbound = q->now.n;
}

/* The number of elements that wait for a bound is limited here, where it depends on the elements alone. */
static void append_element(struct element_queue *q, const struct element *e)
{
	buf_add(&q->elements, e, sizeof(*e));
	q->now.n++;
	if (++q->unbound <= ELEMENTS_MAX)
		return;
	end_unit(q);
	for (size_t i = q->waits; i < unit_count(q); i++)
		((struct element_unit *)q->units.data)[i].loose = true;
	set_upper_bound(q, q->piece_end);
}

static void on_timestamp(struct element_queue *q, const struct element *e)
{
	uint64_t time = input_time(q->input, e->value);

	append_element(q, e);
	if (e->time_unknown)
		return;
	set_upper_bound(q, time);
	q->lo = time;
	if (!q->between && !may_switch(q)) {
		q->now.has_at = true;
		q->now.at = time;
	}
	if (stretch_is_empty(q)) {
		q->now.lo = time;
		return;
	}
	end_unit(q);
	set_upper_bound(q, time);
}

static void on_context(struct element_queue *q, const struct element *e)
{
	const struct engine_context context = { .has_ctxid = e->context.has_ctxid,
						.ctxid = e->context.ctxid,
						.has_vmid = e->context.has_vmid,
						.vmid = e->context.vmid };
	uint32_t tid;

	if (stream_thread_id(q->stream, &context, &tid) && !(q->has_tid && q->tid == tid)) {
		if (!stretch_is_empty(q))
			begin_stretch(q);
		q->has_tid = q->now.has_tid = true;
		q->tid = q->now.tid = tid;
	}
	append_element(q, e);
}

/* In a slice of one thread, the gap is that thread's. */
static void add_lost(struct element_queue *q)
{
	const struct element_unit lost = {
		.first = true, .lost = true, .lo = q->lo, .hi = UINT64_MAX, .piece = q->piece
	};

	if (!q->stream->of_threads || q->stream->by_context || q->stream->by_switches)
		buf_add(&q->units, &lost, sizeof(lost));
}

static void on_no_sync(struct element_queue *q, const struct element *e)
{
	/* The stretch has a thread that lost trace, even if only its context ID was decoded. */
	bool has_owner = !stretch_is_empty(q) || (q->now.n && q->now.has_tid);

	/* Between pieces, demux.c decides per thread whether trace is missing. */
	if (e->reason == REASON_INIT || e->reason == REASON_END_OF_TRACE)
		return;
	q->has_tid = false;
	if (has_owner) {
		append_element(q, e);
		begin_stretch(q);
	}
	add_lost(q);
	q->now.has_tid = false;
	q->now.gap = true;
	q->now.gap_reason = e->reason;
	q->between = true;
}

static void on_code(struct element_queue *q, const struct element *e)
{
	if (q->between && !stretch_is_empty(q))
		begin_stretch(q);
	if (q->begins) {
		q->now.late = stream_decoder_sync(q->decoder) != 0;
		q->begins = false;
	}
	q->between = e->kind == ELEM_EXCEPTION;
	q->now.code = true;
	q->now.in_kernel |= e->kind == ELEM_RANGE && e->range.start >> 63;
	append_element(q, e);
}

static int on_element(void *user, const struct element *e)
{
	struct element_queue *q = user;

	switch (e->kind) {
	case ELEM_RANGE:
	case ELEM_RANGE_NOPATH:
	case ELEM_NO_IMAGE:
	case ELEM_UNKNOWN_ADDRESS:
	case ELEM_EXCEPTION:
		on_code(q, e);
		break;
	case ELEM_TRACE_ON:
		if (!stretch_is_empty(q))
			begin_stretch(q);
		q->between = false;
		append_element(q, e);
		break;
	case ELEM_CONTEXT:
		on_context(q, e);
		break;
	case ELEM_NO_SYNC:
		on_no_sync(q, e);
		break;
	case ELEM_TIMESTAMP:
		on_timestamp(q, e);
		break;
	case ELEM_END:
	case ELEM_SW:
		break;
	default:
		append_element(q, e);
		break;
	}
	return 0;
}

static int on_piece(void *user, const struct pd_piece *p, bool ends)
{
	struct element_queue *q = user;
	bool timed = q->input->has_clock && p->origin.time;

	if (ends) {
		end_unit(q);
		if (q->begins && (p->size || p->lost) && !stream_decoder_synced(q->decoder))
			buf_add(&q->units, &q->now, sizeof(q->now));
		if (timed)
			set_upper_bound(q, q->piece_end);
		q->last_end = timed ? p->origin.time : q->last_end;
		return 0;
	}
	q->piece = p;
	q->piece_end = timed ? p->origin.time : UINT64_MAX;
	/*
	 * In a slice that is cut, time goes on; another one begins after the end of the one before. Where it is
	 * unknown when they end, time goes on from one to the next.
	 */
	if (timed && p->origin.time != q->last_end)
		q->lo = q->last_end;
	if (timed)
		q->lo =
		    MAX(q->lo, schedule_trace_start(q->input->schedule, q->stream->source_cpu, q->lo, q->piece_end));
	q->has_tid = false;
	begin_unit(q, true);
	q->between = q->begins = true;
	return 0;
}

int element_queue_open(struct input *input, const struct stream *s, unsigned workers, struct element_queue **ret)
{
	struct element_queue *q = calloc(1, sizeof(*q));
	const struct stream_decoder_sink to = { on_element, NULL, on_piece, q };
	int rc;

	if (!q)
		return -ENOMEM;
	q->input = input;
	q->last_end = input->has_clock ? input->begins : 0;
	rc = stream_decoder_open(input, s, &to, workers, &q->decoder);
	if (rc < 0) {
		free(q);
		return rc;
	}
	q->stream = stream_decoder_stream(q->decoder);
	/*
	 * TRCCONFIGR.TS exists in ETMv4 and ETE only. For other protocols timestamps are assumed; without any, more
	 * elements are queued.
	 */
	q->stamped = (!s->of_threads || s->by_context || s->by_switches) &&
		     (s->config.protocol < PROTOCOL_ETMV4 || s->config.configr & TRCCONFIGR_TS);
	*ret = q;
	return 0;
}

static void drop_front(struct buf *b, size_t size)
{
	if (!size)
		return;
	memmove(b->data, b->data + size, b->size - size);
	b->size -= size;
}

/* Removes consumed units and elements; usually few remain to be moved. */
static void compact(struct element_queue *q)
{
	drop_front(&q->units, q->unit * sizeof(struct element_unit));
	drop_front(&q->elements, q->element * sizeof(struct element));
	q->waits -= q->unit;
	q->unit = q->element = 0;
}

static int fill(struct element_queue *q)
{
	int rc;

	compact(q);
	rc = stream_decoder_step(q->decoder, STEP);
	if (rc >= 0 && buf_error(&q->elements))
		rc = buf_error(&q->elements);
	if (rc >= 0 && buf_error(&q->units))
		rc = buf_error(&q->units);
	if (rc < 0)
		return rc;
	q->ended = rc == 0;
	if (!q->stamped && !stretch_is_empty(q)) {
		end_unit(q);
		set_upper_bound(q, q->piece_end);
	}
	return 0;
}

int element_queue_head(struct element_queue *q, const struct element_unit **ret)
{
	while (q->unit >= q->waits && !q->ended) {
		int rc = fill(q);

		if (rc < 0)
			return rc;
	}
	if (q->ended)
		set_upper_bound(q, UINT64_MAX);
	*ret = q->unit < q->waits ? (struct element_unit *)q->units.data + q->unit : NULL;
	return 0;
}

const struct element *element_queue_elements(const struct element_queue *q)
{
	return (const struct element *)q->elements.data + q->element;
}

const struct element_unit *element_queue_units(const struct element_queue *q, size_t *ret_n)
{
	*ret_n = unit_count(q) - q->unit;
	return (const struct element_unit *)q->units.data + q->unit;
}

void element_queue_pop(struct element_queue *q)
{
	const struct element_unit *u = (struct element_unit *)q->units.data + q->unit++;

	q->element += u->n;
}

struct element_queue *element_queue_close(struct element_queue *q)
{
	if (!q)
		return NULL;
	stream_decoder_close(q->decoder);
	buf_done(&q->elements);
	buf_done(&q->units);
	free(q);
	return NULL;
}
