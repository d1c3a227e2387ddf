/* SPDX-License-Identifier: MIT */
/* Calls and returns, which nearly all control transfers are: inline, for calls.c. arrival.c has their rare cases. */
#ifndef CSIGHT_CALLS_ARRIVAL_H
#define CSIGHT_CALLS_ARRIVAL_H

#include "lib/calls/calls-private.h"

/* Pushes the function that control is in; if DEPTH_MAX functions are open, emits a gap and begins a segment. */
static inline int arrival_push(struct calls *c, enum call_kind kind, enum anchor anchor, uint64_t address)
{
	if (__builtin_expect(c->depth && calls_open(calls_top(c)) >= DEPTH_MAX, 0)) {
		int rc = calls_gap(c, GAP_DEPTH);

		return rc < 0 ? rc : calls_segment(c);
	}
	return calls_push(c, CALL_EVENT_ENTER, kind,
			  (struct calls_frame){ .function = c->here.region, .address = address, .anchor = anchor });
}

/* Control has come to addr, which c->here describes, by a call. */
static inline int arrival_call(struct calls *c, uint64_t addr)
{
	bool exits = compiled_exits(c, addr);
	int rc;

	c->arrival = ARRIVE_FLOW;
	c->counts.calls++;
	rc = arrival_push(c, CALL_PLAIN, ANCHOR_RETURN, c->successor);
	if (rc == 0)
		calls_top(c)->exits = exits;
	c->called = addr;
	return rc;
}

/* Returns true if the function on top had set the stack pointer to another value when it branched here. */
static inline bool arrival_changed_stack(struct calls *c)
{
	const struct region *top = calls_top(c)->function;

	/* Of the kernel's stacks, a thread has one. */
	return (top->stack_use & UNWIND_SETS_STACK) && !(top->start >> 63) && c->has_successor &&
	       region_moves_stack(top, c->successor - INSTRUCTION_SIZE);
}

/* The frame on top is not of the function that control is in, but should be: replaces it as CALL_ODD. */
int arrival_replace_odd(struct calls *c);

static inline int arrival_match_top(struct calls *c)
{
	return calls_top(c)->function == c->here.region ? 0 : arrival_replace_odd(c);
}

/* Returns from frame c->stack[depth], the innermost one whose return address control is at. */
static inline int arrival_return_to(struct calls *c, size_t depth, enum leave_kind last)
{
	bool saves = calls_frame_saves(&c->stack[depth]);
	uint64_t addr = c->stack[depth].address;
	size_t uncertain_below = c->uncertain_below;
	int rc = calls_pop_to(c, depth, last);

	if (rc == 0)
		rc = arrival_match_top(c);
	if (rc == 0)
		rc = calls_confirm_return(c, addr, uncertain_below);
	if (rc == 0 && calls_top(c)->exits)
		return compiled_leave(c);
	return rc == 0 && saves ? calls_saved_add(c, addr) : rc;
}

/* As arrival_return(), where the function on top had set the stack pointer. */
int arrival_return_elsewhere(struct calls *c, uint64_t addr);

/* As arrival_return(), where no frame has addr as its return address. */
int arrival_return_unmatched(struct calls *c, uint64_t addr);

/* Control has come to addr, which c->here describes, by a return. */
static inline int arrival_return(struct calls *c, uint64_t addr)
{
	size_t depth;
	int rc;

	c->arrival = ARRIVE_FLOW;
	if (arrival_changed_stack(c))
		return arrival_return_elsewhere(c, addr);
	rc = fibres_return(c, addr);
	if (rc != 0)
		return rc < 0 ? rc : arrival_match_top(c);
	depth = calls_find_anchor(c, ANCHOR_RETURN, addr);
	return depth != SIZE_MAX ? arrival_return_to(c, depth, LEAVE_RETURN) : arrival_return_unmatched(c, addr);
}

/* Control comes to addr, which c->here describes, other than by a call, a return, or a step within the function on top.
 */
int arrival_transfer(struct calls *c, uint64_t addr);

/* As arrival_transfer(), for a jump, or for one function that continues into the next. */
int arrival_jump(struct calls *c, uint64_t addr);

#endif
