/* SPDX-License-Identifier: MIT */
/* The physical view of a store: a function that leaves by a tail call is left then, and not with its callee. */
#include <string.h>

#include "lib/base/array.h"
#include "lib/store/reader.h"

struct physical {
	const struct store *from;
	struct store_rewriter to;
	bool *left; /* for each open frame of the logical view: whether the physical one has left it */
	size_t cap_left;
};

/* The thread that is written. */
struct physical_thread {
	struct physical *view;
	const struct store_frame *frames; /* open ones of the logical view */
	uint32_t index;                   /* in the writer */
};

static void physical_done(struct physical *p)
{
	store_rewriter_done(&p->to);
	free(p->left);
}

static int put_event(const struct physical_thread *t, const struct store_event *at, enum call_event_type type,
		     unsigned kind, const struct store_frame *f)
{
	struct store_event e = *at;

	e.kind = (uint8_t)kind;
	return store_rewriter_put(&t->view->to, t->index, type, &e, f);
}

/* Leaves the function that ends below a frame, with its inlined functions. */
static int leave_caller(const struct physical_thread *t, const struct store_event *e)
{
	bool *left = t->view->left;
	int rc = 0;

	for (uint32_t i = e->depth; rc == 0 && i-- > 0 && !left[i];) {
		left[i] = true;
		rc = put_event(t, e, CALL_EVENT_LEAVE, LEAVE_TAIL, &t->frames[i]);
		if (t->frames[i].site == STORE_NO_SITE)
			break;
	}
	return rc;
}

/* Enters that function again. */
static int enter_caller(const struct physical_thread *t, const struct store_event *e)
{
	bool *left = t->view->left;
	uint32_t i = e->depth;
	int rc = 0;

	while (i > 0 && left[i - 1] && (i == e->depth || t->frames[i].site != STORE_NO_SITE))
		i--;
	for (; rc == 0 && i < e->depth; i++) {
		left[i] = false;
		rc = put_event(t, e, CALL_EVENT_ENTER, t->frames[i].site == STORE_NO_SITE ? CALL_TAIL : CALL_INLINED,
			       &t->frames[i]);
	}
	return rc;
}

static int put_enter(const struct physical_thread *t, const struct store_event *e)
{
	/* In a store without nested tail calls, those that make them have been left. */
	bool tail = calls_kind_is_tail(e->kind), nested = tail && t->view->from->layout->nested;
	unsigned kind = calls_kind_is_resumed(e->kind) ? CALL_RESUMED : tail ? CALL_TAIL : e->kind;
	/* A frame that has none below begins a segment. */
	int rc = e->depth ? 0 : put_event(t, e, CALL_EVENT_SEGMENT, e->again ? SEGMENT_AGAIN : SEGMENT_NEW, NULL);

	if (rc == 0 && nested)
		rc = leave_caller(t, e);
	if (rc == 0)
		rc = array_reserve(t->view->left, e->depth, &t->view->cap_left);
	if (rc < 0)
		return rc;
	t->view->left[e->depth] = false;
	return put_event(t, e, CALL_EVENT_ENTER, kind, &e->frame);
}

static int put_leave(const struct physical_thread *t, const struct store_event *e)
{
	unsigned kind = e->kind == LEAVE_FOLDED || e->kind == LEAVE_BACK ? LEAVE_TAIL : e->kind;
	int rc = t->view->left[e->depth] ? 0 : put_event(t, e, CALL_EVENT_LEAVE, kind, &e->frame);

	return rc == 0 && e->kind == LEAVE_BACK ? enter_caller(t, e) : rc;
}

static int put_thread(struct physical *p, size_t index)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	const struct store_thread *from = store_thread(p->from, index);
	const struct calls_counts counts = { .instructions = from->instructions, .unexplained = from->unexplained };
	struct physical_thread t = { .view = p };
	struct store_event e;
	int rc = store_thread_add(p->to.writer, from->tid, from->name, &t.index);

	if (rc == 0)
		rc = store_iter_new(p->from, index, &it);
	while (rc == 0 && (rc = store_iter_next(it, &e)) == 1) {
		store_iter_stack(it, &t.frames);
		if (e.type == STORE_ENTER)
			rc = put_enter(&t, &e);
		else if (e.type == STORE_LEAVE)
			rc = put_leave(&t, &e);
		else
			rc = put_event(&t, &e, e.type == STORE_GAP ? CALL_EVENT_GAP : CALL_EVENT_MARK, e.kind, NULL);
	}
	return rc < 0 ? rc : store_thread_end(p->to.writer, t.index, &counts);
}

int store_physical(const struct store *s, int to)
{
	_cleanup_(physical_done) struct physical p = { .from = s };
	const struct store_meta meta = store_meta_all(s);
	int rc = store_rewriter_init(&p.to, s, &meta, to);

	for (size_t i = 0; rc == 0 && i < s->n_notes; i++)
		rc = store_put_note(p.to.writer, &s->notes[i]);
	for (size_t i = 0; rc == 0 && i < s->n_threads; i++)
		rc = put_thread(&p, i);
	if (rc == 0) {
		store_rewriter_put_processes(&p.to, s);
		rc = store_rewriter_put_endings(&p.to, s);
	}
	if (rc == 0)
		rc = store_finish(p.to.writer);
	return rc == -EINVAL ? -EBADMSG : rc;
}
