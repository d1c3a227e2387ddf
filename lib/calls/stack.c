/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/calls/calls-private.h"

enum { SAVED_PER_FRAME = 64 };

int calls_emit_inlined(struct calls *c, enum call_event_type type, unsigned kind, const struct inlined *inlined)
{
	return event_times_add(&c->times, c->counts.instructions, type, kind, inlined->function, inlined);
}

int calls_set_certain(struct calls *c)
{
	c->uncertain_below = 0;
	c->stack_uncertain = c->unsettled = false;
	if (!c->emitted_uncertain)
		return 0;
	c->emitted_uncertain = false;
	return calls_emit(c, CALL_EVENT_MARK, MARK_CERTAIN, NULL);
}

int calls_set_uncertain(struct calls *c)
{
	c->uncertain_below = c->uncertain_below ? MIN(c->uncertain_below, c->depth) : c->depth;
	c->counts.uncertain++;
	c->unsettled = false;
	if (c->emitted_uncertain)
		return 0;
	c->emitted_uncertain = true;
	return calls_emit(c, CALL_EVENT_MARK, MARK_UNCERTAIN, NULL);
}

int calls_set_was_uncertain(struct calls *c)
{
	c->counts.uncertain++;
	return calls_emit(c, CALL_EVENT_MARK, MARK_WAS_UNCERTAIN, NULL);
}

int calls_set_unsettled(struct calls *c)
{
	int rc;

	if (c->emitted_uncertain)
		return 0;
	rc = calls_set_uncertain(c);
	c->unsettled = true;
	return rc;
}

/*
 * The frames that are really open are a subset of c->stack. So a return to an address that only one of them waits for
 * ends that one.
 */
int calls_confirm_by(struct calls *c, uint64_t address)
{
	for (size_t i = 0; i < c->depth; i++)
		if (c->stack[i].anchor == ANCHOR_RETURN && c->stack[i].address == address)
			return 0;
	return calls_set_certain(c);
}

int calls_push_callee(struct calls *c, enum call_kind kind, const struct region *function,
		      const struct inlined *inlined)
{
	struct calls_frame *f = calls_top(c);
	int rc = array_reserve(c->callers, c->n_callers, &c->cap_callers);

	if (rc < 0)
		return rc;
	c->callers[c->n_callers++] = (struct tail_caller){ f->function, f->inlined, f->root };
	f->n_callers++;
	f->below = calls_open(f);
	f->function = function;
	f->inlined = inlined;
	f->root = NULL;
	rc = calls_emit(c, CALL_EVENT_ENTER, kind, function);
	return rc < 0 || !inlined ? rc : inlined_enter(c, kind);
}

int calls_pop_callee(struct calls *c, enum leave_kind kind)
{
	struct calls_frame *f = calls_top(c);
	const struct tail_caller *caller = &c->callers[--c->n_callers];
	int rc = calls_leave(c, kind);

	f->n_callers--;
	f->function = caller->function;
	f->inlined = caller->inlined;
	f->root = caller->root;
	f->below -= calls_open(f) - f->below;
	return rc;
}

int calls_pop_callees(struct calls *c, enum leave_kind kind)
{
	int rc = 0;

	while (rc == 0 && calls_top(c)->n_callers)
		rc = calls_pop_callee(c, kind);
	return rc;
}

int calls_popped(struct calls *c)
{
	/* Frames pushed from here on are certain. */
	c->uncertain_below = MIN(c->uncertain_below, c->depth);
	return c->uncertain_below ? 0 : calls_set_certain(c);
}

int calls_pop_all(struct calls *c, enum leave_kind kind)
{
	int rc = 0;

	while (rc == 0 && c->depth)
		rc = calls_pop(c, kind);
	return rc;
}

size_t calls_find_below(const struct calls *c, size_t depth, const struct region *function)
{
	for (size_t i = MIN(depth, c->depth); i-- > 0;) {
		if (c->stack[i].function == function)
			return i + 1;
	}
	return SIZE_MAX;
}

int calls_saved_push(struct calls *c, const struct saved_sp *saved)
{
	int rc = array_reserve(c->saved, c->n_saved, &c->cap_saved);

	if (rc == 0)
		c->saved[c->n_saved++] = *saved;
	return rc;
}

int calls_saved_add(struct calls *c, uint64_t address)
{
	size_t first = c->n_saved;

	while (first > 0 && c->saved[first - 1].depth == c->depth)
		if (c->saved[--first].address == address)
			return 0;
	/* Bounds the records of one frame; the oldest one is dropped. */
	if (c->n_saved - first >= SAVED_PER_FRAME) {
		memmove(c->saved + first, c->saved + first + 1, (c->n_saved - first - 1) * sizeof(*c->saved));
		c->n_saved--;
	}
	return calls_saved_push(c, &(struct saved_sp){ c->depth, address });
}

size_t calls_saved_find(const struct calls *c, uint64_t address, size_t *ret_outermost)
{
	size_t innermost = SIZE_MAX;

	for (size_t i = c->n_saved; i-- > 0;) {
		if (c->saved[i].address != address)
			continue;
		innermost = innermost == SIZE_MAX ? c->saved[i].depth : innermost;
		*ret_outermost = c->saved[i].depth;
	}
	return innermost;
}

int calls_gap(struct calls *c, enum gap_kind kind)
{
	int rc;

	c->arrival = ARRIVE_SEGMENT;
	if (!c->depth)
		return 0;
	c->uncertain_below = 0;
	rc = calls_pop_all(c, LEAVE_GAP);
	/* During the gap the thread may switch to other stacks. */
	fibres_forget(c);
	if (rc == 0)
		rc = calls_set_certain(c);
	if (rc == 0)
		rc = calls_emit(c, CALL_EVENT_GAP, kind, NULL);
	event_times_add_wait(&c->times);
	c->counts.gaps++;
	return rc;
}

int calls_segment(struct calls *c)
{
	const struct inlined *inlined = c->here.inlined;
	int rc = calls_emit(c, CALL_EVENT_SEGMENT, SEGMENT_NEW, NULL);

	/* A call that begins here has not been open before. */
	if (c->here.entered && c->address == c->here.start)
		inlined = c->here.entered[0]->parent;
	return rc < 0 ? rc
		      : calls_push(c, CALL_EVENT_ENTER, CALL_INFERRED,
				   (struct calls_frame){ .function = c->here.region, .inlined = inlined });
}
