/*
 * Inlined functions as frames. They are not on lib/calls' own stack, where returns and jumps are looked up: each frame there
 * has the innermost that it is in, which knows those around it.
 */
#include "lib/calls/state.h"

static uint32_t depth_of(const struct inlined *i)
{
	return i ? i->depth : 0;
}

static int enter(struct calls *c, const struct inlined *from, const struct inlined *to, enum call_kind kind)
{
	int rc = to->around == from ? 0 : enter(c, from, to->around, kind);

	return rc < 0 ? rc : calls_put_inlined(c, CALL_EVENT_ENTER, kind, to);
}

/* The one that is told; what it is in has been there since the segment began, too. */
static int tell_root(struct calls *c, struct frame *f)
{
	f->root = f->root->around;
	c->counts.roots++;
	return f->root ? calls_put_inlined(c, CALL_EVENT_ROOT, CALL_INFERRED, f->root)
		       : calls_put(c, CALL_EVENT_ROOT, CALL_INFERRED, f->function);
}

static int leave(struct calls *c, const struct inlined *until, enum leave_kind kind)
{
	struct frame *f = top(c);
	int rc = 0;

	while (rc == 0 && f->inlined != until) {
		const struct inlined *left = f->inlined;

		f->inlined = left->around;
		rc = calls_put_inlined(c, CALL_EVENT_LEAVE, kind, left);
		if (rc == 0 && f->root == left)
			rc = tell_root(c, f);
	}
	return rc;
}

int inlined_enter(struct calls *c, enum call_kind kind)
{
	return top(c)->inlined ? enter(c, NULL, top(c)->inlined, kind) : 0;
}

int inlined_leave(struct calls *c, enum leave_kind kind)
{
	return leave(c, NULL, kind);
}

/*
 * Of what is about to be entered, from outside to inside, the part that was left last, with nothing entered since:
 * compilers mix the instructions of an inlined function with those around it, and that was no end of it.
 */
static const struct inlined *come_back(struct calls *c, const struct inlined *from, const struct inlined *to)
{
	while (from != to) {
		const struct inlined *next = to;

		while (next->around != from)
			next = next->around;
		if (!spread_take_back(&c->spread, next))
			break;
		from = next;
	}
	return from;
}

/* One after the other. */
static int move_singly(struct calls *c, const struct inlined *both, const struct inlined *to, enum leave_kind kind)
{
	int rc = leave(c, both, kind);

	if (rc < 0 || to == both)
		return rc;
	top(c)->inlined = to;
	both = come_back(c, both, to);
	return both == to ? 0 : enter(c, both, to, CALL_INLINED);
}

int inlined_move(struct calls *c, const struct inlined *to, enum leave_kind kind)
{
	struct frame *f = top(c);
	const struct inlined *from = f->inlined, *both = from, *other = to;
	uint32_t left, entered;

	/* One deeper, or one less, are the most. */
	if (to && to->around == from) {
		left = 0;
		entered = 1;
	} else if (from && from->around == to) {
		both = to;
		left = 1;
		entered = 0;
	} else {
		while (both != other) {
			if (depth_of(both) >= depth_of(other))
				both = both->around;
			else
				other = other->around;
		}
		left = depth_of(from) - depth_of(both);
		entered = depth_of(to) - depth_of(both);
	}
	if (kind != LEAVE_RETURN || f->root || !spread_fits(&c->spread, left, entered))
		return move_singly(c, both, to, kind);
	f->inlined = to;
	if (!left && spread_ends_in_leave(&c->spread))
		entered = depth_of(to) - depth_of(come_back(c, both, to));
	return left || entered ? spread_move(&c->spread, c->counts.instructions, from, to, left, entered) : 0;
}
