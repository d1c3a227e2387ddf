/*
 * Stacks that a thread has beside the one it is on: fibres, goroutines, the stack of Go's scheduler. A thread leaves
 * one in a function that saves the stack pointer, and comes back to the return address of that function's call: where
 * several wait at the same place, which of them it is comes out when they return to different ones.
 */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/calls/state.h"

enum {
	FIBRES_MAX = 1 << 14,
	FRAMES_MAX = 1 << 18,
	SEARCHED = 16 /* frames from the top that may have saved it */,
	SWITCHING = 2 /* frames of one that switches by himself */
};

static void forget(struct fibres *f, size_t i)
{
	f->frames -= f->list[i].n;
	f->possible -= f->list[i].possible;
	free(f->list[i].frames);
	free(f->list[i].marks);
	f->n--;
	memmove(f->list + i, f->list + i + 1, (f->n - i) * sizeof(*f->list));
}

void fibres_forget(struct calls *c)
{
	while (c->fibres.n)
		forget(&c->fibres, c->fibres.n - 1);
	free(c->fibres.list);
	c->fibres = (struct fibres){ 0 };
}

/*
 * Where a switch to address would come back to: how many frames are left then. SIZE_MAX: it would not. It may come back
 * to the saving function's caller, or to that function itself (here), which then returns.
 */
static size_t waits_at(const struct frame *frames, size_t n, uint64_t address, const struct region *here)
{
	for (size_t i = n; i-- > 1 && n - i <= SEARCHED;) {
		if (frames[i].anchor != ANCHOR_RETURN || !frame_saves(&frames[i]))
			continue;
		if (frames[i].address == address)
			return i;
		if (frames[i].function == here && i + 1 < n)
			return i + 1;
	}
	return SIZE_MAX;
}

bool fibres_saved(const struct calls *c)
{
	for (size_t i = c->depth; i-- > 1 && c->depth - i <= SEARCHED;)
		if (c->stack[i].anchor == ANCHOR_RETURN && frame_saves(&c->stack[i]))
			return true;
	return false;
}

/* The present stack, to be come back to. */
static int keep(struct calls *c)
{
	struct fibres *f = &c->fibres;
	struct fibre kept = { .n = c->depth, .n_marks = c->n_marks, .doubtful = c->unsure != 0 };

	while (f->n && (f->n >= FIBRES_MAX || f->frames + c->depth > FRAMES_MAX))
		forget(f, 0);
	if (array_reserve(f->list, f->n, &f->room) < 0)
		return -ENOMEM;
	kept.frames = reallocarray(NULL, kept.n, sizeof(*kept.frames));
	kept.marks = reallocarray(NULL, kept.n_marks + 1, sizeof(*kept.marks));
	if (!kept.frames || !kept.marks) {
		free(kept.frames);
		free(kept.marks);
		return -ENOMEM;
	}
	memcpy(kept.frames, c->stack, kept.n * sizeof(*kept.frames));
	if (kept.n_marks)
		memcpy(kept.marks, c->marks, kept.n_marks * sizeof(*kept.marks));
	f->list[f->n++] = kept;
	f->frames += kept.n;
	return 0;
}

static int leave(struct calls *c)
{
	c->unsure = 0;
	return calls_pop_all(c, LEAVE_SWITCH);
}

/* Its frames are the present ones. */
static int enter(struct calls *c, const struct fibre *f)
{
	int rc = calls_put(c, CALL_EVENT_SEGMENT, 0, NULL);

	for (size_t i = 0; rc == 0 && i < f->at; i++) {
		bool known = i || f->frames[i].anchor != ANCHOR_NONE;
		struct frame frame = f->frames[i];

		frame.root = NULL;
		rc = calls_push(c, CALL_EVENT_ENTER, known ? CALL_RESUMED : CALL_INFERRED, frame);
	}
	for (size_t i = 0; rc == 0 && i < f->n_marks && f->marks[i].depth <= f->at; i++)
		rc = calls_mark_at(c, &f->marks[i]);
	return rc;
}

/* The one that was taken to be it is believed to have been it from now on, and the others not. */
static void believe(struct fibres *f)
{
	size_t first = SIZE_MAX;

	for (size_t i = 0; f->possible && i < f->n; i++) {
		if (!f->list[i].possible)
			continue;
		first = MIN(first, i);
		f->list[i].possible = false;
		f->list[i].doubtful = true;
	}
	f->possible = 0;
	if (first != SIZE_MAX)
		forget(f, first);
}

int fibres_begin(struct calls *c)
{
	int rc;

	believe(&c->fibres);
	rc = fibres_saved(c) ? keep(c) : 0;
	if (rc == 0)
		rc = leave(c);
	if (rc == 0)
		rc = calls_sure(c);
	if (rc == 0)
		rc = calls_put(c, CALL_EVENT_SEGMENT, 0, NULL);
	if (rc == 0)
		rc = calls_push(c, CALL_EVENT_ENTER, CALL_INFERRED,
				(struct frame){ .function = c->here.region, .inlined = c->here.inlined });
	c->counts.switches++;
	return rc;
}

/* The one left longest ago of those that may be it is taken to be the one; while there are others it stays listed. */
static int take_first(struct calls *c)
{
	struct fibres *f = &c->fibres;
	size_t first = 0;
	int rc;

	while (!f->list[first].possible)
		first++;
	rc = enter(c, &f->list[first]);
	if (f->possible > 1 || f->list[first].doubtful) {
		c->doubtful = true;
		return rc < 0 ? rc : calls_unsure(c);
	}
	forget(f, first);
	return rc < 0 ? rc : calls_sure(c);
}

int fibres_switch(struct calls *c, uint64_t address)
{
	struct fibres *f = &c->fibres;
	size_t own = waits_at(c->stack, c->depth, address, c->here.region), depth = c->depth;
	int rc;

	believe(f);
	for (size_t i = 0; i < f->n; i++) {
		f->list[i].at = waits_at(f->list[i].frames, f->list[i].n, address, c->here.region);
		f->list[i].possible = f->list[i].at != SIZE_MAX;
		f->possible += f->list[i].possible;
	}
	if (!f->possible)
		return 0;
	rc = fibres_saved(c) ? keep(c) : 0;
	if (rc == 0)
		rc = leave(c);
	if (rc < 0)
		return rc;
	/* A scheduler may choose the one that has just been left; who switches by himself does not switch to himself.
	 */
	if (own != SIZE_MAX && f->n && own + SWITCHING < depth) {
		f->list[f->n - 1].at = own;
		f->list[f->n - 1].possible = true;
		f->possible++;
	}
	c->counts.switches++;
	rc = take_first(c);
	return rc < 0 ? rc : 1;
}

/* Each that may be it would return from its last frame. */
static bool would_return(struct fibre *f, uint64_t address)
{
	const struct frame *last = f->at ? &f->frames[f->at - 1] : NULL;

	return last && last->anchor == ANCHOR_RETURN && last->address == address;
}

int fibres_return(struct calls *c, uint64_t address)
{
	struct fibres *f = &c->fibres;
	size_t first = 0, left = 0, i;
	int rc;

	while (first < f->n && !f->list[first].possible)
		first++;
	/* Deeper than where they parted, or not one of theirs. */
	if (first == f->n || c->depth != f->list[first].at || top(c)->anchor != ANCHOR_RETURN)
		return 0;
	for (i = 0; i < f->n; i++)
		left += f->list[i].possible && would_return(&f->list[i], address);
	if (!left)
		return 0;
	for (i = 0; i < f->n; i++) {
		if (f->list[i].possible && would_return(&f->list[i], address)) {
			f->list[i].at--;
		} else if (f->list[i].possible) {
			f->list[i].possible = false;
			f->possible--;
		}
	}
	/* The right one is still among them, first: the return goes its way. */
	if (f->list[first].possible) {
		if (f->possible > 1 || f->list[first].doubtful)
			return 0;
		forget(f, first);
		return calls_sure(c);
	}
	rc = leave(c);
	if (rc == 0)
		rc = take_first(c);
	return rc < 0 ? rc : 1;
}
