#include <string.h>

#include "lib/calls/calls-private.h"
#include "lib/code/unwind.h"

static int push_call(struct calls *c, enum call_kind kind, enum anchor anchor, uint64_t address)
{
	if (c->depth >= DEPTH_MAX) {
		int rc = calls_gap(c, GAP_DEPTH);

		return rc < 0 ? rc : calls_segment(c);
	}
	return calls_push(c, CALL_EVENT_ENTER, kind,
			  (struct calls_frame){ .function = c->here.region, .address = address, .anchor = anchor });
}

/* Another function takes the place of the one on calls_top, and will return in its stead. */
static int replace_top(struct calls *c, enum leave_kind how, enum call_kind kind)
{
	struct calls_frame frame = *calls_top(c);
	int rc;

	if (kind == CALL_TAIL && frame.function && frame.function->kind == REGION_PLT &&
	    event_times_retarget(&c->times, frame.function, c->here.region)) {
		calls_top(c)->function = c->here.region;
		return 0;
	}
	c->counts.tails += kind == CALL_TAIL;
	c->counts.unexplained += kind == CALL_ODD;
	frame.saved = kind == CALL_TAIL && calls_frame_saves(&frame);
	frame.function = c->here.region;
	frame.inlined = frame.root = NULL;
	rc = calls_pop(c, how);
	return rc < 0 ? rc : calls_push(c, CALL_EVENT_ENTER, kind, frame);
}

/* Control is back in a frame that should be the one on calls_top now. */
static int match_top(struct calls *c)
{
	return calls_top(c)->function == c->here.region ? 0 : replace_top(c, LEAVE_TAIL, CALL_ODD);
}

/* The branch that led here came with another stack pointer. */
static bool stack_pointer_changed(struct calls *c)
{
	return calls_top(c)->function && (calls_top(c)->function->stack_use & UNWIND_SETS_STACK) && c->has_successor &&
	       region_moves_stack(calls_top(c)->function, c->successor - INSTRUCTION_SIZE);
}

/* The innermost frame that the function's own table says to catch what comes out of its push_call, here; SIZE_MAX:
 * none. */
static size_t find_catch_frame(const struct calls *c, uint64_t addr, bool *ret_unknown)
{
	const struct region *to = c->here.region;

	for (size_t i = c->depth - 1; i-- > 0;) {
		const struct calls_frame *callee = &c->stack[i + 1];
		uint64_t site = callee->address + (callee->anchor == ANCHOR_RESUME ? INSTRUCTION_SIZE : 0), handler;
		int rc;

		if (c->stack[i].function != to || callee->anchor == ANCHOR_NONE)
			continue;
		rc = region_handler(to, site, &handler);
		if (rc == 1 && handler == addr)
			return i + 1;
		*ret_unknown = *ret_unknown || rc == -ENOENT;
	}
	return SIZE_MAX;
}

/*
 * Back into a function that waits for a push_call to return, at another place than that: longjmp, or an on_exception
 * caught. It is the innermost frame that was ready for it; where none is known to have been, the innermost of that
 * function. -ENOENT: no such function.
 */
static int unwind_to_function(struct calls *c, uint64_t addr, bool exact)
{
	bool unknown = false;
	size_t outermost = SIZE_MAX, depth = find_catch_frame(c, addr, &unknown), more;
	int rc;

	if (depth != SIZE_MAX)
		return calls_pop_to(c, depth, LEAVE_UNWOUND);
	depth = calls_saved_find(c, addr, &outermost);
	if (depth == SIZE_MAX && (!exact || unknown)) {
		outermost = depth = calls_find_below(c, c->depth - 1, c->here.region);
		while (outermost != SIZE_MAX && (more = calls_find_below(c, outermost - 1, c->here.region)) != SIZE_MAX)
			outermost = more;
	}
	if (depth == SIZE_MAX)
		return -ENOENT;
	rc = calls_pop_to(c, depth, LEAVE_UNWOUND);
	return rc < 0 || outermost == depth ? rc : calls_set_uncertain(c);
}

/* The function that is returned to was below everything that was seen; at is where it waited. */
static int push_root(struct calls *c, uint64_t at)
{
	struct region_hit hit = c->here;
	int rc = region_hit_holds(&hit, at, c->times.stamp) ? 0 : region_map_find(c->regions, at, c->times.stamp, &hit);

	if (rc < 0)
		return rc;
	if (hit.region != c->here.region)
		hit = c->here;
	c->counts.roots++;
	return calls_push(c, CALL_EVENT_ROOT, CALL_INFERRED,
			  (struct calls_frame){ .function = hit.region, .inlined = hit.inlined, .root = hit.inlined });
}

/*
 * With another stack pointer, to where no frame of this stack waits for a return: out of some of its frames, or on to
 * another stack.
 */
static int leave_by_stack_change(struct calls *c, uint64_t addr)
{
	const struct region *to = c->here.region;
	/* What was there before the segment may have been ready for it unseen; so may one that needs no push_call for
	 * that.
	 */
	bool exact = c->stack[0].function != to && !(to->stack_use & UNWIND_SAVES_STACK);
	int rc = addr == to->start ? -ENOENT : unwind_to_function(c, addr, exact);

	if (rc != -ENOENT)
		return rc;
	if (addr == to->start || fibres_saved(c))
		return fibres_begin(c);
	/* Nothing can come back to what is left: it is passed over, by something that was there before the segment. */
	rc = calls_pop_all(c, LEAVE_UNWOUND);
	return rc < 0 ? rc : push_root(c, addr);
}

/* A return to addr, or something that has the effect of one, where no frame waits for exactly that; it waited at at. */
static int return_without_frame(struct calls *c, uint64_t addr, uint64_t at)
{
	int rc;

	if (c->depth == 1 && calls_top(c)->anchor == ANCHOR_NONE) {
		rc = calls_pop(c, LEAVE_RETURN);
		return rc < 0 ? rc : push_root(c, at);
	}
	rc = unwind_to_function(c, addr, false);
	return rc != -ENOENT ? rc : replace_top(c, LEAVE_RETURN, CALL_ODD);
}

/* Back where a frame waits for it: the innermost one, at depth. */
static int return_to_frame(struct calls *c, size_t depth, enum leave_kind last)
{
	bool saves = calls_frame_saves(&c->stack[depth]);
	uint64_t addr = c->stack[depth].address;
	size_t uncertain_below = c->uncertain_below;
	int rc = calls_pop_to(c, depth, last);

	if (rc == 0)
		rc = match_top(c);
	if (rc == 0)
		rc = calls_confirm_return(c, addr, uncertain_below);
	return rc == 0 && saves ? calls_saved_add(c, addr) : rc;
}

static int arrive_by_return(struct calls *c, uint64_t addr)
{
	bool away = stack_pointer_changed(c), unknown = false;
	size_t depth;
	int rc = away ? fibres_switch(c, addr) : fibres_return(c, addr);

	if (rc != 0)
		return rc < 0 ? rc : match_top(c);
	/* Behind a push_call that never returns there may stand what catches. */
	depth = away ? find_catch_frame(c, addr, &unknown) : SIZE_MAX;
	if (depth != SIZE_MAX)
		return calls_pop_to(c, depth, LEAVE_UNWOUND);
	depth = calls_find_anchor(c, ANCHOR_RETURN, addr);
	if (depth != SIZE_MAX)
		return return_to_frame(c, depth, LEAVE_RETURN);
	if (calls_top(c)->anchor == ANCHOR_RESUME) {
		/* What a handler made the program push_call returns to where that stood. */
		if (calls_top(c)->address == addr) {
			rc = calls_pop(c, LEAVE_RETURN);
			return rc < 0 ? rc : match_top(c);
		}
		/* The handler returns to the trampoline that asks the kernel to resume what was interrupted. */
		rc = replace_top(c, LEAVE_RETURN, CALL_TAIL);
		calls_top(c)->ended = true;
		return rc;
	}
	return away && c->depth > 1 ? leave_by_stack_change(c, addr)
				    : return_without_frame(c, addr, addr - INSTRUCTION_SIZE);
}

/* A jump to where this function catches: here, or in a frame of the same function further out. */
static int catch_in_same_function(struct calls *c, uint64_t addr)
{
	bool unknown = false;
	uint64_t handler;
	size_t depth;

	if (region_handler(c->here.region, c->successor, &handler) == 1 && handler == addr)
		return 0;
	depth = find_catch_frame(c, addr, &unknown);
	return depth == SIZE_MAX ? 0 : calls_pop_to(c, depth, LEAVE_UNWOUND);
}

int arrival_jump(struct calls *c, uint64_t addr)
{
	const struct region *to = c->here.region;
	bool away, unknown = false;
	size_t depth;
	int rc;

	away = c->indirect && stack_pointer_changed(c);
	if (calls_top(c)->function == to)
		return away ? catch_in_same_function(c, addr) : 0;
	rc = away ? fibres_switch(c, addr) : 0;
	if (rc != 0)
		return rc < 0 ? rc : match_top(c);
	if (addr == to->start)
		return away ? leave_by_stack_change(c, addr) : replace_top(c, LEAVE_TAIL, CALL_TAIL);
	depth = away ? find_catch_frame(c, addr, &unknown) : SIZE_MAX;
	if (depth != SIZE_MAX)
		return calls_pop_to(c, depth, LEAVE_UNWOUND);
	/* A function written in assembler may return by BR. */
	depth = calls_find_anchor(c, ANCHOR_RETURN, addr);
	if (depth != SIZE_MAX)
		return return_to_frame(c, depth, depth + 1 == c->depth ? LEAVE_RETURN : LEAVE_UNWOUND);
	if (away)
		return leave_by_stack_change(c, addr);
	/* What the instruction itself names is meant to be gone to: functions in assembler share their ends. */
	if (!c->indirect || to->kind != REGION_FUNCTION)
		return replace_top(c, LEAVE_TAIL, CALL_TAIL);
	rc = unwind_to_function(c, addr, false);
	return rc != -ENOENT ? rc : replace_top(c, LEAVE_TAIL, CALL_ODD);
}

/* The depth below the handler that has now ended; SIZE_MAX: none has. */
static size_t find_handler_end(const struct calls *c, uint64_t addr)
{
	size_t depth = calls_find_anchor(c, ANCHOR_RESUME, addr), handler = c->depth;

	if (depth != SIZE_MAX || addr == c->here.region->start)
		return depth;
	/* The handler may have changed where to go on; and a system push_call that was broken off may be begun anew. */
	while (handler > 0 && c->stack[handler - 1].anchor != ANCHOR_RESUME)
		handler--;
	return handler ? calls_find_below(c, handler - 1, c->here.region) : SIZE_MAX;
}

static int enter_handler(struct calls *c, uint64_t addr, uint64_t resume)
{
	c->counts.signals++;
	return push_call(c, addr >> 63 ? CALL_KERNEL : CALL_SIGNAL, ANCHOR_RESUME, resume);
}

/* Another program, which the thread runs from its beginning. */
static bool is_new_program(const struct calls *c, uint64_t addr)
{
	return c->system_call && addr == c->here.region->start && strcmp(c->here.region->name, "_start") == 0;
}

static int begin_program(struct calls *c)
{
	int rc;

	c->uncertain_below = 0;
	rc = calls_pop_all(c, LEAVE_END);
	fibres_forget(c);
	if (rc == 0)
		rc = calls_set_certain(c);
	return rc < 0 ? rc : calls_segment(c);
}

/* A handler has ended: what it interrupted goes on, or another handler that had to wait, or what it chose instead. */
static int resume_after_handler(struct calls *c, uint64_t addr)
{
	uint64_t resume = calls_top(c)->address;
	int rc = calls_pop(c, LEAVE_RETURN);

	if (rc < 0)
		return rc;
	if (addr == resume || calls_top(c)->function == c->here.region)
		return match_top(c);
	return addr == c->here.region->start ? enter_handler(c, addr, resume) : return_without_frame(c, addr, addr);
}

/* Where the kernel let the program go on is where it stopped, or a signal's handler, or where a handler had begun. */
static int arrive_by_resume(struct calls *c, uint64_t addr)
{
	const struct region *to = c->here.region;
	size_t depth = SIZE_MAX;
	int rc = 0;

	if (!calls_top(c)->function)
		rc = calls_pop(c, LEAVE_RETURN);
	if (rc < 0 || (c->has_successor && addr == c->successor))
		return rc;
	if (c->system_call && c->depth > 1 && calls_top(c)->ended)
		return resume_after_handler(c, addr);
	if (is_new_program(c, addr))
		return begin_program(c);
	if (c->system_call || c->exception_return)
		depth = find_handler_end(c, addr);
	if (depth != SIZE_MAX) {
		rc = calls_pop_to(c, depth, LEAVE_RETURN);
		return rc < 0 ? rc : match_top(c);
	}
	if (addr == to->start || to->kind != REGION_FUNCTION)
		return enter_handler(c, addr, c->has_successor ? c->successor : UINT64_MAX);
	return return_without_frame(c, addr, addr);
}

/* Control comes to where it was looked at last by something else than a step within the function on calls_top. */
int arrival_transfer(struct calls *c, uint64_t addr)
{
	enum arrival arrival = c->arrival;

	c->arrival = ARRIVE_FLOW;
	switch (arrival) {
	case ARRIVE_SEGMENT:
		return calls_segment(c);
	case ARRIVE_FLOW:
		if (addr != c->successor)
			c->counts.unexplained++;
		return arrival_jump(c, addr);
	case ARRIVE_JUMP:
		return arrival_jump(c, addr);
	case ARRIVE_CALL:
		c->counts.calls++;
		return push_call(c, CALL_PLAIN, ANCHOR_RETURN, c->successor);
	case ARRIVE_RETURN:
		return arrive_by_return(c, addr);
	case ARRIVE_RESUME:
		return arrive_by_resume(c, addr);
	}
	return 0;
}
