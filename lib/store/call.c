/* SPDX-License-Identifier: MIT */
#include "lib/store/call.h"

#include "lib/store/reader.h"

/* The frame of a call that is being read. */
struct entered_call {
	const uint8_t *roots;
	const struct store_call *call, *end; /* this one, and where the list of them ends */
	bool found, open;
	uint32_t depth; /* of its frame, if it is open */
};

/* True if an enter begins the call, or another piece of it. */
static bool begins_call(const struct entered_call *o, const struct store_event *e)
{
	if (o->open || !o->roots[e->frame.function] || e->frame.piece)
		return false;
	return o->found || (e->frame.enter == o->call->enter && e->frame.instructions == o->call->begin);
}

/* Returns true if a leave ends the call, so that the next one is to be read. */
static bool ends_call(struct entered_call *o, const struct store_event *e)
{
	if (e->type != STORE_LEAVE || !o->open || e->depth != o->depth)
		return false;
	o->open = false;
	return e->time == o->call->end && e->instructions - o->call->begin >= o->call->instructions;
}

/* Events between two calls that take longer to read than to look for a place in the store does. */
enum { EVENTS_FAR = 1 << 15 };

/* Moves to the next call if it is far away, by the average number of events in a time. */
static int approach(struct store_iter *it, const struct store_thread *t, uint64_t time, uint64_t next)
{
	double each = (double)(t->last - t->first) / (double)MAX(t->events, (uint64_t)1);

	return (double)(next - MIN(time, next)) > each * EVENTS_FAR ? store_iter_seek(it, next) : 0;
}

int store_calls_read(const struct store *s, const uint8_t *roots, const struct store_call *calls, size_t n,
		     const struct store_calls_sink *sink)
{
	struct entered_call o = { .roots = roots, .call = calls, .end = calls + n };
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	int rc = n ? store_iter_new(s, calls->thread, &it) : 0;

	if (rc == 0 && n)
		rc = store_iter_seek(it, calls->enter);
	while (rc == 0 && o.call < o.end && (rc = store_iter_next(it, &e)) == 1) {
		if (e.time > o.call->end)
			return -ENOENT;
		if (e.type == STORE_ENTER && begins_call(&o, &e)) {
			o.open = o.found = true;
			o.depth = e.depth;
		}
		rc = o.open ? sink->event(sink->user, &e, e.depth - o.depth) : 0;
		if (rc < 0 || !ends_call(&o, &e))
			continue;
		rc = sink->end ? sink->end(sink->user, o.call) : 0;
		o.found = false;
		if (++o.call < o.end && rc == 0)
			rc = approach(it, store_thread(s, calls->thread), e.time, o.call->enter);
	}
	return rc < 0 ? rc : o.call == o.end ? 0 : -ENOENT;
}

int store_call_read(const struct store *s, const uint8_t *roots, const struct store_call *call,
		    const struct store_call_sink *sink)
{
	const struct store_calls_sink all = { .event = sink->event, .user = sink->user };

	return store_calls_read(s, roots, call, 1, &all);
}

struct extracting {
	struct store_rewriter *to;
	const struct store_layout *layout;
	const struct store_call *call;
	uint32_t thread;
};

static int put_event(const struct extracting *x, enum call_event_type type, const struct store_event *e)
{
	const struct store_event at = { .time = e->time - x->call->enter,
					.instructions = e->instructions - x->call->begin,
					.bound = e->bound,
					.kind = e->kind };
	bool framed = type == CALL_EVENT_ENTER || type == CALL_EVENT_LEAVE;

	return store_rewriter_put(x->to, x->thread, type, &at, framed ? &e->frame : NULL);
}

static int on_event(void *user, const struct store_event *e, uint32_t depth)
{
	const struct extracting *x = user;
	struct store_event plain = *e;
	int rc = 0;

	if (e->type == STORE_ENTER && depth == 0) {
		rc = put_event(x, CALL_EVENT_SEGMENT, e);
		/* Roots of a segment are confirmed at their leave; here it is a call as any other. */
		plain.kind = e->kind == CALL_INFERRED ? CALL_PLAIN : e->kind;
	}
	if (rc < 0 || e->type == STORE_GAP)
		return rc;
	if (e->type == STORE_ENTER)
		plain.kind = store_kind_now(x->layout, plain.kind);
	return put_event(x,
			 e->type == STORE_ENTER   ? CALL_EVENT_ENTER
			 : e->type == STORE_LEAVE ? CALL_EVENT_LEAVE
						  : CALL_EVENT_MARK,
			 &plain);
}

int store_extract_calls(const struct store *s, int to, const struct store_extract *from)
{
	_cleanup_(store_rewriter_done) struct store_rewriter rewriter = { 0 };
	struct store_meta meta = store_meta_all(s);
	int rc;

	/* The times of its threads are of no clock. */
	meta.clock = NULL;
	meta.realtime = meta.monotonic = 0;
	rc = store_rewriter_init(&rewriter, s, &meta, to);
	for (size_t i = 0; rc == 0 && i < from->n; i++) {
		struct extracting x = { .to = &rewriter, .layout = s->layout, .call = &from->calls[i] };
		const struct calls_counts counts = { .instructions = from->calls[i].instructions };
		const struct store_call_sink sink = { on_event, &x };

		rc = store_thread_add(rewriter.writer, (uint32_t)i + 1, from->names[i], &x.thread);
		if (rc == 0)
			rc = store_call_read(s, from->roots, x.call, &sink);
		if (rc == 0)
			rc = store_thread_end(rewriter.writer, x.thread, &counts);
	}
	if (rc == 0)
		rc = store_finish(rewriter.writer);
	return rc == -EINVAL ? -EBADMSG : rc;
}
