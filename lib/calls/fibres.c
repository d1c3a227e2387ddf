/* SPDX-License-Identifier: MIT */
/*
 * Stacks that a thread has besides the current one: fibres, goroutines, the stack of Go's scheduler. A thread leaves a
 * stack in a function that saves the stack pointer, and comes back at the return address of the call of that function.
 * Where several saved stacks wait at the same address they are all candidates; later returns, to addresses that only
 * some of them wait for, decide which one it was. A stack may also come from another thread, which left it: a return to
 * an address that no candidate waits for shows that it was none of them.
 */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/calls/calls-private.h"

enum {
	FIBRES_MAX = 1 << 14,
	FIBRE_FRAMES_MAX = 1 << 18,
	FRAMES_SEARCHED = 16 /* innermost frames that are searched for a function that saved the stack pointer */,
	FRAMES_SELF_SWITCH = 2 /* frames at most between a switch of a stack to itself */
};

static void fibre_drop(struct fibres *f, size_t i)
{
	f->frames -= f->list[i].n + f->list[i].n_callers;
	f->n_candidates -= f->list[i].candidate;
	free(f->list[i].frames);
	free(f->list[i].callers);
	free(f->list[i].saved);
	f->n--;
	memmove(f->list + i, f->list + i + 1, (f->n - i) * sizeof(*f->list));
}

void fibres_forget(struct calls *c)
{
	while (c->fibres.n)
		fibre_drop(&c->fibres, c->fibres.n - 1);
	free(c->fibres.list);
	c->fibres = (struct fibres){ .foreign = c->fibres.foreign };
}

/*
 * Returns how many frames remain when a switch to address comes back to the stack, or SIZE_MAX if it cannot. It may
 * arrive at the caller of the saving function, or in that function itself (here), which then returns.
 */
static size_t fibre_resume_depth(const struct calls_frame *frames, size_t n, uint64_t address,
				 const struct region *here)
{
	for (size_t i = n; i-- > 1 && n - i <= FRAMES_SEARCHED;) {
		if (frames[i].anchor != ANCHOR_RETURN || !calls_frame_saves(&frames[i]))
			continue;
		if (frames[i].address == address)
			return i;
		if (frames[i].function == here && i + 1 < n)
			return i + 1;
	}
	return SIZE_MAX;
}

bool fibres_can_return(const struct calls *c)
{
	for (size_t i = c->depth; i-- > 1 && c->depth - i <= FRAMES_SEARCHED;)
		if (c->stack[i].anchor == ANCHOR_RETURN && calls_frame_saves(&c->stack[i]))
			return true;
	return false;
}

/* Returns a copy of n items, or NULL if there is no memory. */
static void *copy_of(const void *items, size_t n, size_t size)
{
	void *copy = reallocarray(NULL, n + 1, size);

	if (copy && n)
		memcpy(copy, items, n * size);
	return copy;
}

/* Adds a copy of the current stack to the list. */
static int fibre_save(struct calls *c)
{
	struct fibres *f = &c->fibres;
	struct fibre fibre = {
		.n = c->depth, .n_callers = c->n_callers, .n_saved = c->n_saved, .uncertain = c->uncertain_below != 0
	};

	while (f->n && (f->n >= FIBRES_MAX || f->frames + c->depth + c->n_callers > FIBRE_FRAMES_MAX))
		fibre_drop(f, 0);
	if (array_reserve(f->list, f->n, &f->cap_list) < 0)
		return -ENOMEM;
	fibre.frames = copy_of(c->stack, fibre.n, sizeof(*c->stack));
	fibre.callers = copy_of(c->callers, fibre.n_callers, sizeof(*c->callers));
	fibre.saved = copy_of(c->saved, fibre.n_saved, sizeof(*c->saved));
	if (!fibre.frames || !fibre.callers || !fibre.saved) {
		free(fibre.frames);
		free(fibre.callers);
		free(fibre.saved);
		return -ENOMEM;
	}
	f->list[f->n++] = fibre;
	f->frames += fibre.n + fibre.n_callers;
	return 0;
}

static int leave_stack(struct calls *c)
{
	c->uncertain_below = 0;
	return calls_pop_all(c, LEAVE_SWITCH);
}

/* Enters a frame of a saved stack, with its tail callers. */
static int frame_resume(struct calls *c, enum call_kind kind, struct calls_frame frame,
			const struct tail_caller *callers)
{
	const struct tail_caller callee = { frame.function, frame.inlined };
	unsigned n = frame.n_callers;
	int rc;

	frame.function = n ? callers[0].function : callee.function;
	frame.inlined = n ? callers[0].inlined : callee.inlined;
	frame.root = NULL;
	frame.n_callers = 0;
	rc = calls_push(c, CALL_EVENT_ENTER, kind, frame);
	for (unsigned i = 1; rc == 0 && i <= n; i++) {
		const struct tail_caller *f = i < n ? &callers[i] : &callee;

		rc = calls_push_callee(c, CALL_RESUMED_TAIL, f->function, f->inlined);
	}
	return rc;
}

/* Makes the frames of f the current ones. */
static int fibre_enter(struct calls *c, const struct fibre *f)
{
	int rc = calls_emit(c, CALL_EVENT_SEGMENT, SEGMENT_AGAIN, NULL);
	const struct tail_caller *callers = f->callers;

	for (size_t i = 0; rc == 0 && i < f->resume_depth; i++) {
		bool known = i || f->frames[i].anchor != ANCHOR_NONE;

		rc = frame_resume(c, known ? CALL_RESUMED : CALL_INFERRED, f->frames[i], callers);
		callers += f->frames[i].n_callers;
	}
	for (size_t i = 0; rc == 0 && i < f->n_saved && f->saved[i].depth <= f->resume_depth; i++)
		rc = calls_saved_push(c, &f->saved[i]);
	return rc;
}

/*
 * Settles the last choice: the candidate that was entered is taken as right and dropped from the list; the other
 * candidates stay listed as uncertain.
 */
static void drop_first_candidate(struct fibres *f)
{
	size_t first = SIZE_MAX;

	for (size_t i = 0; f->n_candidates && i < f->n; i++) {
		if (!f->list[i].candidate)
			continue;
		first = MIN(first, i);
		f->list[i].candidate = false;
		f->list[i].uncertain = true;
	}
	f->n_candidates = 0;
	if (first != SIZE_MAX)
		fibre_drop(f, first);
}

/* Leaves the current stack, which the caller has saved if a switch may come back to it, and begins an unknown one. */
static int begin_stack(struct calls *c)
{
	int rc = leave_stack(c);

	if (rc == 0)
		rc = calls_set_certain(c);
	if (rc == 0)
		rc = calls_emit(c, CALL_EVENT_SEGMENT, SEGMENT_NEW, NULL);
	if (rc == 0)
		rc = calls_push(c, CALL_EVENT_ENTER, CALL_INFERRED,
				(struct calls_frame){ .function = c->here.region, .inlined = c->here.inlined });
	c->counts.switches++;
	return rc;
}

int fibres_begin(struct calls *c)
{
	int rc;

	drop_first_candidate(&c->fibres);
	rc = fibres_can_return(c) ? fibre_save(c) : 0;
	return rc < 0 ? rc : begin_stack(c);
}

/*
 * Decides that the current stack is none of the candidates, which remain saved: the thread is on a stack that another
 * thread left, or that it left itself without a trace of that. From here on each switch may lead to such a stack, and
 * the stacks that this thread left may be in use by another one.
 */
static int refute_candidates(struct calls *c)
{
	struct fibres *f = &c->fibres;
	int rc = calls_set_uncertain(c);

	for (size_t i = 0; i < f->n; i++)
		f->list[i].candidate = false;
	f->n_candidates = 0;
	f->foreign = true;
	return rc < 0 ? rc : begin_stack(c);
}

/* Enters the candidate that was left longest ago. It stays listed until the next switch. */
static int enter_first_candidate(struct calls *c)
{
	struct fibres *f = &c->fibres;
	size_t first = 0;
	int rc;

	while (!f->list[first].candidate)
		first++;
	rc = fibre_enter(c, &f->list[first]);
	if (f->n_candidates > 1 || f->list[first].uncertain || f->foreign) {
		c->stack_uncertain = true;
		return rc < 0 ? rc : calls_set_uncertain(c);
	}
	return rc < 0 ? rc : calls_set_certain(c);
}

/* Saves the current stack and makes it the only candidate: the thread seems to come back to the stack that it is on. */
static int make_own_candidate(struct calls *c, size_t resume_depth)
{
	struct fibres *f = &c->fibres;
	int rc = fibre_save(c);

	if (rc < 0)
		return rc;
	f->list[f->n - 1].resume_depth = resume_depth;
	f->list[f->n - 1].candidate = true;
	f->n_candidates = 1;
	return 0;
}

int fibres_switch(struct calls *c, uint64_t address)
{
	struct fibres *f = &c->fibres;
	size_t own = fibre_resume_depth(c->stack, c->depth, address, c->here.region), depth = c->depth;
	int rc;

	drop_first_candidate(f);
	for (size_t i = 0; i < f->n; i++) {
		f->list[i].resume_depth = fibre_resume_depth(f->list[i].frames, f->list[i].n, address, c->here.region);
		f->list[i].candidate = f->list[i].resume_depth != SIZE_MAX;
		f->n_candidates += f->list[i].candidate;
	}
	if (!f->n_candidates)
		return own != SIZE_MAX && own + FRAMES_SELF_SWITCH < depth ? make_own_candidate(c, own) : 0;
	rc = fibres_can_return(c) ? fibre_save(c) : 0;
	if (rc < 0)
		return rc;
	/*
	 * A scheduler may resume the stack that has just been left, so that is a candidate as well. A stack that
	 * switches directly does not switch to itself.
	 */
	if (own != SIZE_MAX && f->n && own + FRAMES_SELF_SWITCH < depth) {
		f->list[f->n - 1].resume_depth = own;
		f->list[f->n - 1].candidate = true;
		f->n_candidates++;
	}
	/* The candidates may have been dropped for the stack that was saved. */
	if (!f->n_candidates) {
		rc = begin_stack(c);
		return rc < 0 ? rc : 1;
	}
	rc = leave_stack(c);
	if (rc < 0)
		return rc;
	c->counts.switches++;
	rc = enter_first_candidate(c);
	return rc < 0 ? rc : 1;
}

/* Returns true if a return of the candidate's last frame would lead to address. */
static bool fibre_would_return(struct fibre *f, uint64_t address)
{
	const struct calls_frame *last = f->resume_depth ? &f->frames[f->resume_depth - 1] : NULL;

	return last && last->anchor == ANCHOR_RETURN && last->address == address;
}

int fibres_return_among(struct calls *c, uint64_t address)
{
	struct fibres *f = &c->fibres;
	size_t first = 0, left = 0, i;
	int rc;

	while (!f->list[first].candidate)
		first++;
	/* The current stack is deeper than where the candidates diverge, or this is not one of their returns. */
	if (c->depth != f->list[first].resume_depth || calls_top(c)->anchor != ANCHOR_RETURN)
		return 0;
	for (i = 0; i < f->n; i++)
		left += f->list[i].candidate && fibre_would_return(&f->list[i], address);
	if (!left && calls_find_anchor(c, ANCHOR_RETURN, address) == SIZE_MAX) {
		rc = refute_candidates(c);
		return rc < 0 ? rc : 1;
	}
	if (!left)
		return 0;
	for (i = 0; i < f->n; i++) {
		if (f->list[i].candidate && fibre_would_return(&f->list[i], address)) {
			f->list[i].resume_depth--;
		} else if (f->list[i].candidate) {
			f->list[i].candidate = false;
			f->n_candidates--;
		}
	}
	/* The stack that was entered is still a candidate: the caller makes the return. */
	if (f->list[first].candidate) {
		return f->n_candidates > 1 || f->list[first].uncertain || f->foreign ? 0 : calls_set_certain(c);
	}
	rc = leave_stack(c);
	if (rc == 0)
		rc = enter_first_candidate(c);
	return rc < 0 ? rc : 1;
}
