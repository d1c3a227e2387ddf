/* SPDX-License-Identifier: MIT */
#include "lib/store/finder.h"

#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"

/* A call of an inlined function, of which more pieces may follow while the function that it is in is open. */
struct held_call {
	struct store_found_call call;
	uint64_t enter, instructions; /* of that function's frame */
	size_t depth;                 /* of the stack up to that frame */
};

struct store_finder {
	const struct store *store;
	struct store_finder_options o;
	bool inlined;          /* some function that is wanted is */
	struct store_iter *it; /* of the thread before `next`; NULL: no thread is open */
	size_t next;
	struct store_event event; /* read last */
	bool pending;             /* it is not handled yet */
	bool ended;               /* the thread has no more events that matter */
	struct held_call *held;   /* by depth; those of one depth in the order in which their first pieces ended */
	size_t n_held, cap_held;
};

int store_finder_new(const struct store *s, const struct store_finder_options *options, struct store_finder **ret)
{
	struct store_finder *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->store = s;
	f->o = *options;
	if (!f->o.until)
		f->o.until = UINT64_MAX;
	for (size_t i = 0; i < store_functions(s) && !f->inlined; i++)
		f->inlined = store_function(s, i)->kind == REGION_INLINED && (!f->o.wanted || f->o.wanted[i]);
	*ret = f;
	return 0;
}

struct store_finder *store_finder_free(struct store_finder *f)
{
	if (!f)
		return NULL;
	store_iter_free(f->it);
	free(f->held);
	free(f);
	return NULL;
}

/*
 * Moves to the first event that matters. A call of an inlined function that is open then may have begun with a piece
 * since its place was entered.
 */
static int seek(struct store_finder *f)
{
	int rc = store_iter_seek(f->it, f->o.since);
	const struct store_frame *stack;
	size_t depth;

	if (rc < 0 || !f->inlined)
		return rc;
	store_iter_stack(f->it, &stack);
	depth = store_iter_place(f->it);
	return depth && stack[depth - 1].enter < f->o.since ? store_iter_seek(f->it, stack[depth - 1].enter) : 0;
}

/* Opens the next thread that has events. Returns 1, or 0 after the last one. */
static int open_thread(struct store_finder *f)
{
	for (; f->next < store_threads(f->store); f->next++) {
		const struct store_thread *t = store_thread(f->store, f->next);
		int rc;

		if (!t->events || (f->o.tid >= 0 && t->tid != (uint64_t)f->o.tid))
			continue;
		rc = store_iter_new(f->store, f->next, &f->it);
		if (rc == 0 && f->o.since > t->first)
			rc = seek(f);
		if (rc < 0)
			return rc;
		if (f->o.wanted)
			store_iter_filter(f->it, f->o.wanted);
		f->next++;
		f->pending = f->ended = false;
		return 1;
	}
	return 0;
}

static bool is_wanted(const struct store_finder *f, const struct store_frame *frame)
{
	return (!f->o.wanted || f->o.wanted[frame->function]) && !frame->piece;
}

/* True if a wanted call is open. */
static bool is_within(const struct store_finder *f)
{
	const struct store_frame *stack;
	size_t depth = store_iter_stack(f->it, &stack);

	for (size_t i = 0; i < depth; i++)
		if (is_wanted(f, &stack[i]))
			return true;
	return false;
}

static bool is_place_open(const struct store_finder *f, const struct held_call *h)
{
	const struct store_frame *stack;
	size_t depth = store_iter_stack(f->it, &stack);

	return !f->ended && depth >= h->depth && stack[h->depth - 1].enter == h->enter &&
	       stack[h->depth - 1].instructions == h->instructions;
}

static void take_held(struct store_finder *f, size_t index, struct store_found_call *ret)
{
	*ret = f->held[index].call;
	f->n_held--;
	memmove(&f->held[index], &f->held[index + 1], (f->n_held - index) * sizeof(*f->held));
}

/* Takes the first call that no further piece can follow. Deeper places are closed before those around them. */
static bool take_complete(struct store_finder *f, struct store_found_call *ret)
{
	size_t n = f->n_held;

	while (n && !is_place_open(f, &f->held[n - 1]))
		n--;
	if (n == f->n_held)
		return false;
	take_held(f, n, ret);
	return true;
}

/* Makes the call, or the piece of one, that a leave ends; the iterator is at the leave. */
static void make_call(const struct store_finder *f, struct store_found_call *ret)
{
	const struct store_event *e = &f->event;
	const struct store_frame *stack;
	size_t depth = store_iter_stack(f->it, &stack);

	*ret = (struct store_found_call){
		.thread = f->next - 1,
		.frame = e->frame,
		.end = e->time,
		.ns = e->time - e->frame.enter,
		.bound = store_duration_bound(f->store, f->next - 1, e->frame.enter, e->time),
		.instructions = e->instructions - e->frame.instructions,
		.waited_ns = store_iter_waited(f->it, e->time) - e->frame.waited,
		.depth = e->depth,
		.caller = depth ? stack[depth - 1].function : STORE_NO_CALLER,
		.left = e->kind,
		.whole = store_is_whole(e),
	};
}

static void add_piece(const struct store_finder *f, struct store_found_call *to)
{
	struct store_event last = f->event;
	struct store_found_call piece;

	make_call(f, &piece);
	last.frame.kind = to->frame.kind;
	to->end = piece.end;
	to->ns += piece.ns;
	to->bound += MIN(piece.bound, UINT64_MAX - to->bound);
	to->instructions += piece.instructions;
	to->waited_ns += piece.waited_ns;
	to->left = piece.left;
	to->whole = store_is_whole(&last);
}

static int hold(struct store_finder *f, const struct store_found_call *call, size_t depth)
{
	const struct store_frame *stack;

	if (array_reserve(f->held, f->n_held, &f->cap_held) < 0)
		return -ENOMEM;
	store_iter_stack(f->it, &stack);
	f->held[f->n_held++] =
	    (struct held_call){ *call, stack[depth - 1].enter, stack[depth - 1].instructions, depth };
	return 0;
}

/* Returns the index of the call that a leave at this place continues, or of the one before it; n_held: none. */
static size_t find_held(const struct store_finder *f, size_t depth)
{
	for (size_t i = f->n_held; i-- > 0 && f->held[i].depth >= depth;)
		if (f->o.outermost || f->held[i].call.frame.function == f->event.frame.function)
			return i;
	return f->n_held;
}

/* Handles the leave of a wanted function. Returns 1 with a call, or 0. */
static int on_leave(struct store_finder *f, struct store_found_call *ret)
{
	const struct store_frame *frame = &f->event.frame;
	bool inlined = frame->site != STORE_NO_SITE, piece = inlined && frame->kind == CALL_RESUMED;
	size_t depth = inlined ? store_iter_place(f->it) : 0, held = inlined ? find_held(f, depth) : f->n_held;

	f->pending = false;
	if (piece && held < f->n_held) {
		add_piece(f, &f->held[held].call);
		return 0;
	}
	if (f->o.outermost && f->n_held)
		held = 0;
	if (held < f->n_held) {
		f->pending = true;
		take_held(f, held, ret);
		return 1;
	}
	/* The call of a piece alone began before the trace, or is unknown. */
	if (piece || frame->enter > f->o.until)
		return 0;
	make_call(f, ret);
	return depth ? hold(f, ret, depth) : 1;
}

/* Handles the last event. Returns 1 with a call, or 0. */
static int on_event(struct store_finder *f, struct store_found_call *ret)
{
	const struct store_event *e = &f->event;

	if (e->type == STORE_LEAVE && is_wanted(f, &e->frame) && !(f->o.outermost && is_within(f)))
		return on_leave(f, ret);
	f->pending = false;
	/* Calls that begin later do not match; stop once no earlier call is open. */
	f->ended = e->type != STORE_LEAVE && e->time > f->o.until && (e->type == STORE_GAP || e->depth == 0);
	return 0;
}

/* Finds the next call of the thread. Returns 1, or 0 after the last one. */
static int next_of_thread(struct store_finder *f, struct store_found_call *ret)
{
	for (;;) {
		int rc = 0;

		if (!f->pending && !f->ended) {
			rc = store_iter_next(f->it, &f->event);
			f->ended = rc == 0;
			f->pending = rc == 1;
		}
		if (rc < 0)
			return rc;
		rc = take_complete(f, ret) ? 1 : f->pending ? on_event(f, ret) : 0;
		if (rc < 0 || (rc == 1 && ret->ns >= f->o.least_ns && ret->end >= f->o.since) ||
		    (rc == 0 && f->ended && !f->n_held))
			return rc;
	}
}

int store_finder_next(struct store_finder *f, struct store_found_call *ret)
{
	int rc = 0;

	for (;;) {
		if (!f->it) {
			rc = open_thread(f);
			if (rc <= 0)
				return rc;
		}
		rc = next_of_thread(f, ret);
		if (rc != 0)
			return rc;
		f->it = store_iter_free(f->it);
	}
}
