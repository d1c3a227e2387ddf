#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/calls/state.h"
#include "lib/code/unwind.h"

enum { MARKS_EACH = 64 };

bool frame_saves(const struct frame *f)
{
	return f->saved || (f->function && (f->function->stack_use & UNWIND_SAVES_STACK));
}

int calls_put(struct calls *c, enum call_event_type type, unsigned kind, const struct region *function)
{
	return spread_put(&c->spread, c->counts.instructions, type, kind, function, NULL);
}

int calls_put_inlined(struct calls *c, enum call_event_type type, unsigned kind, const struct inlined *inlined)
{
	return spread_put(&c->spread, c->counts.instructions, type, kind, inlined->function, inlined);
}

int calls_sure(struct calls *c)
{
	c->unsure = 0;
	c->doubtful = false;
	if (!c->told_unsure)
		return 0;
	c->told_unsure = false;
	return calls_put(c, CALL_EVENT_MARK, MARK_CERTAIN, NULL);
}

int calls_unsure(struct calls *c)
{
	c->unsure = c->unsure ? MIN(c->unsure, c->depth) : c->depth;
	c->counts.uncertain++;
	if (c->told_unsure)
		return 0;
	c->told_unsure = true;
	return calls_put(c, CALL_EVENT_MARK, MARK_UNCERTAIN, NULL);
}

/*
 * Whatever frames are left in truth are among those that are here: a return to where only one of them returns to is
 * that one's.
 */
int calls_returned(struct calls *c, uint64_t address, size_t unsure)
{
	if (!c->unsure || c->doubtful || c->depth >= unsure)
		return 0;
	for (size_t i = 0; i < c->depth; i++)
		if (c->stack[i].anchor == ANCHOR_RETURN && c->stack[i].address == address)
			return 0;
	return calls_sure(c);
}

int calls_pop(struct calls *c, enum leave_kind kind)
{
	int rc = inlined_leave(c, kind);
	const struct region *function = top(c)->function;

	if (rc < 0)
		return rc;
	c->left = kind;
	c->depth--;
	while (c->n_marks && c->marks[c->n_marks - 1].depth > c->depth)
		c->n_marks--;
	if (kind == LEAVE_UNWOUND)
		c->counts.unwound++;
	rc = calls_put(c, CALL_EVENT_LEAVE, kind, function);
	if (rc < 0 || !c->unsure || c->doubtful)
		return rc;
	/* What comes on top from here on is certain. */
	c->unsure = MIN(c->unsure, c->depth);
	return c->unsure ? 0 : calls_sure(c);
}

int calls_pop_to(struct calls *c, size_t depth, enum leave_kind last)
{
	int rc = 0;

	while (rc == 0 && c->depth > depth)
		rc = calls_pop(c, c->depth == depth + 1 ? last : LEAVE_UNWOUND);
	return rc;
}

int calls_pop_all(struct calls *c, enum leave_kind kind)
{
	int rc = 0;

	while (rc == 0 && c->depth)
		rc = calls_pop(c, kind);
	return rc;
}

int calls_push(struct calls *c, enum call_event_type type, enum call_kind kind, struct frame frame)
{
	int rc = array_reserve(c->stack, c->depth, &c->room);

	if (rc < 0)
		return rc;
	c->stack[c->depth++] = frame;
	c->counts.deepest = (uint32_t)MAX(c->counts.deepest, c->depth);
	if (type == CALL_EVENT_ROOT && frame.root)
		return calls_put_inlined(c, type, kind, frame.root);
	rc = calls_put(c, type, kind, frame.function);
	return rc < 0 ? rc : inlined_enter(c, kind);
}

size_t calls_find_anchor(const struct calls *c, enum anchor anchor, uint64_t address)
{
	for (size_t i = c->depth; i-- > 0;) {
		if (c->stack[i].anchor == anchor && c->stack[i].address == address)
			return i;
	}
	return SIZE_MAX;
}

size_t calls_find_below(const struct calls *c, size_t depth, const struct region *function)
{
	for (size_t i = MIN(depth, c->depth); i-- > 0;) {
		if (c->stack[i].function == function)
			return i + 1;
	}
	return SIZE_MAX;
}

int calls_mark_at(struct calls *c, const struct mark *mark)
{
	int rc = array_reserve(c->marks, c->n_marks, &c->room_marks);

	if (rc == 0)
		c->marks[c->n_marks++] = *mark;
	return rc;
}

int calls_mark(struct calls *c, uint64_t address)
{
	size_t first = c->n_marks;

	while (first > 0 && c->marks[first - 1].depth == c->depth)
		if (c->marks[--first].address == address)
			return 0;
	/* No frame is ready in so many ways: the one it was ready in first is given up. */
	if (c->n_marks - first >= MARKS_EACH) {
		memmove(c->marks + first, c->marks + first + 1, (c->n_marks - first - 1) * sizeof(*c->marks));
		c->n_marks--;
	}
	return calls_mark_at(c, &(struct mark){ c->depth, address });
}

size_t calls_find_mark(const struct calls *c, uint64_t address, size_t *ret_outermost)
{
	size_t innermost = SIZE_MAX;

	for (size_t i = c->n_marks; i-- > 0;) {
		if (c->marks[i].address != address)
			continue;
		innermost = innermost == SIZE_MAX ? c->marks[i].depth : innermost;
		*ret_outermost = c->marks[i].depth;
	}
	return innermost;
}
