/* SPDX-License-Identifier: MIT */
/*
 * What a control transfer does to the stack, by how control arrives (enum arrival) and where. The first matching row
 * applies. "Changed SP": the function on top had set the stack pointer to another value before it branched.
 *
 *   arrival   where control is now              action
 *   SEGMENT   anywhere                          begin a segment
 *   FLOW      function on top                   none (calls.c)
 *             elsewhere                         as JUMP
 *   CALL      anywhere                          push the function; compiled_exits()
 *   JUMP      from an exit                      compiled_leave(), then as follows
 *             to compiled code, by a frame whose
 *             return address was overwritten    compiled_replace(), then as follows
 *             function on top                   none; changed SP: unwind to an outer frame if addr is its landing pad
 *             changed SP, on a saved stack      switch to that stack (fibres.c)
 *             what a handler interrupted        leave the handler
 *             start of a function               tail_call(); changed SP: leave_by_stack_change()
 *             changed SP, a landing pad         unwind to its frame
 *             return address of a frame         return to that frame
 *             changed SP                        leave_by_stack_change()
 *             a tail caller of the top          jump_back()
 *             by a direct branch, or no symbol  tail_call()
 *             elsewhere                         unwind to a frame of the function; none: replace the top as CALL_ODD
 *   RETURN    on a saved stack                  switch to that stack
 *             changed SP, a landing pad         unwind to its frame
 *             return address of a frame         return to that frame; if it is an exit, compiled_leave()
 *             from the kernel's trampoline      tail_call()
 *             from a handler                    what it interrupted, or its trampoline
 *             changed SP                        leave_by_stack_change()
 *             elsewhere                         return_without_frame(): push a root, unwind, or replace by CALL_ODD
 *   RESUME    in the kernel, after an exception enter its handler
 *             after its exception return        leave its handler; then:
 *             where the program was             leave the system call, if any
 *             after a trampoline                leave the handler
 *             a program's entry, after a call   exec: leave all frames, begin a segment
 *             where a handler interrupted       leave the handler
 *             start of a function, or no symbol enter it as a handler
 *             elsewhere                         return_without_frame()
 */
#include <string.h>

#include "lib/base/util.h"
#include "lib/calls/arrival.h"

enum { TAIL_CALLERS_MAX = 32, PLT_FIRST_SIZE = 32 /* bytes of a PLT's first entry */ };

/* Replaces the frame on top by one of the function that control is in, which will return in its place. */
static int replace_top(struct calls *c, enum leave_kind how, enum call_kind kind)
{
	struct calls_frame frame = { .function = c->here.region,
				     .address = calls_top(c)->address,
				     .anchor = calls_top(c)->anchor,
				     .kernel = calls_top(c)->kernel,
				     .back = calls_top(c)->back };
	int rc = calls_pop(c, how);

	if (rc == 0)
		rc = calls_push(c, CALL_EVENT_ENTER, kind, frame);
	if (rc < 0 || kind != CALL_ODD)
		return rc;
	c->counts.unexplained++;
	return calls_set_uncertain(c);
}

/*
 * The function on top has found the one that it was to find, a stub of the PLT or the resolver of lazy binding, and
 * jumped to it. That was called in its place, and is not part of it.
 */
static int enter_bound(struct calls *c)
{
	struct calls_frame *f = calls_top(c);
	int rc;

	if (event_times_retarget(&c->times, f->function, c->here.region)) {
		f->function = c->here.region;
		return 0;
	}
	if (!f->n_callers)
		return replace_top(c, LEAVE_TAIL, CALL_PLAIN);
	rc = calls_pop_callee(c, LEAVE_TAIL);
	return rc < 0 ? rc : calls_push_callee(c, f->folded ? CALL_FOLDED : CALL_TAIL, c->here.region, NULL);
}

/* Returns the index of the innermost tail caller of the frame on top with this function, or -1. */
static int find_tail_caller(const struct calls *c, const struct region *function)
{
	const struct calls_frame *f = &c->stack[c->depth - 1];
	int i = f->n_callers;

	while (i-- > 0 && c->callers[c->n_callers - f->n_callers + (unsigned)i].function != function)
		;
	return i;
}

/*
 * Returns true if the jump was in the first entry of a PLT, which jumps to the resolver. Stubs have regions of their
 * own, which are smaller, or share that of the first entry.
 */
static bool is_first_of_plt(const struct calls *c, const struct region *from)
{
	return from->kind == REGION_PLT && from->end - from->start >= PLT_FIRST_SIZE && c->has_successor &&
	       c->successor - from->start <= PLT_FIRST_SIZE;
}

/* The function on top jumps to the one that control is in, which will return in its place. */
static int tail_call(struct calls *c)
{
	struct calls_frame *f = calls_top(c);
	const struct region *from = f->function, *to = c->here.region;
	int rc = 0;

	if (from && (from->kind == REGION_PLT || f->resolves)) {
		f->resolves = is_first_of_plt(c, from);
		return enter_bound(c);
	}
	c->counts.tails++;
	f->saved = calls_frame_saves(f);
	f->folded = f->folded || f->n_callers == TAIL_CALLERS_MAX || find_tail_caller(c, to) >= 0;
	while (rc == 0 && f->folded && f->n_callers)
		rc = calls_pop_callee(c, LEAVE_FOLDED);
	return rc < 0 ? rc : calls_push_callee(c, f->folded ? CALL_FOLDED : CALL_TAIL, to, NULL);
}

/* Handles a jump back into the middle of a tail caller of the frame on top. Returns 1 if it is one, and 0 if not. */
static int jump_back(struct calls *c)
{
	struct calls_frame *f = calls_top(c);
	int to = find_tail_caller(c, c->here.region), rc = 0;

	if (to < 0)
		return 0;
	while (rc == 0 && f->n_callers > to)
		rc = calls_pop_callee(c, f->n_callers == to + 1 ? LEAVE_BACK : LEAVE_RETURN);
	return rc < 0 ? rc : 1;
}

int arrival_replace_odd(struct calls *c)
{
	return replace_top(c, LEAVE_TAIL, CALL_ODD);
}

/*
 * Finds the innermost frame, below the top, whose exception table has addr as landing pad of its open call. Returns the
 * depth with that frame on top, or SIZE_MAX; *ret_unknown: some frame has no readable table.
 */
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
 * Handles control that comes back into a function with open frames, but not at the return address of one: longjmp, or a
 * caught exception. Unwinds to the innermost frame that was prepared for addr: by an exception table, or by a saved
 * stack pointer. Where no frame is known to be, unwinds to the innermost frame of that function, unless `exact` is set
 * and all exception tables could be read. Returns -ENOENT if there is no such frame.
 */
static int unwind_to_function(struct calls *c, uint64_t addr, bool exact)
{
	bool unknown = false, guessed;
	size_t outermost = SIZE_MAX, depth = find_catch_frame(c, addr, &unknown), more;
	int rc;

	if (depth != SIZE_MAX)
		return calls_pop_to(c, depth, LEAVE_UNWOUND);
	depth = calls_saved_find(c, addr, &outermost);
	guessed = depth == SIZE_MAX && (!exact || unknown);
	if (guessed) {
		outermost = depth = calls_find_below(c, c->depth - 1, c->here.region);
		while (outermost != SIZE_MAX && (more = calls_find_below(c, outermost - 1, c->here.region)) != SIZE_MAX)
			outermost = more;
	}
	if (depth == SIZE_MAX)
		return -ENOENT;
	rc = calls_pop_to(c, depth, LEAVE_UNWOUND);
	/* Control may as well have come to a frame that is older than the segment. */
	if (rc == 0 && guessed && depth == 1 && calls_top(c)->anchor == ANCHOR_NONE)
		rc = calls_set_was_uncertain(c);
	return rc < 0 || outermost == depth ? rc : calls_set_uncertain(c);
}

/*
 * Pushes the function that control is in as a root: it was open before the segment began. at: where its call was made.
 */
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

/* Returns true if the thread has begun in the outermost frame: nothing is older. */
static bool has_thread_start(const struct calls *c)
{
	static const char *const names[] = { "clone", "__clone", "__clone3", "runtime.clone.abi0", "runtime.clone" };
	const char *name = c->stack[0].function->name;

	for (size_t i = 0; i < ELEMENTS(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/*
 * Handles a changed stack pointer at an address that no frame of this stack waits for: control has left some frames, or
 * the stack.
 */
static int leave_by_stack_change(struct calls *c, uint64_t addr)
{
	const struct region *to = c->here.region;
	/*
	 * exact: only a frame of which it is known that it expects a jump to addr will do; otherwise any frame of the
	 * function. A frame that is older than the segment may have called setjmp() before the segment, and a function
	 * that saves the stack pointer itself does so without a call, so for these it is unknown. For exceptions it is
	 * known from the tables.
	 */
	bool exact =
	    (c->stack[0].function != to || region_is_landing(to, addr)) && !(to->stack_use & UNWIND_SAVES_STACK);
	int rc = addr == to->start ? -ENOENT : unwind_to_function(c, addr, exact);

	if (rc != -ENOENT)
		return rc;
	if (addr == to->start || fibres_can_return(c) || has_thread_start(c))
		return fibres_begin(c);
	/*
	 * No later switch could come back to this stack. So all of it has been unwound to something older than the
	 * segment, with frames between that are unknown.
	 */
	rc = calls_set_was_uncertain(c);
	if (rc == 0)
		rc = calls_pop_all(c, LEAVE_UNWOUND);
	return rc < 0 ? rc : push_root(c, addr);
}

/*
 * Handles a return to addr, or a transfer with the effect of one, that no frame waits for. at: address of the call if
 * the function was open before the segment began.
 */
static int return_without_frame(struct calls *c, uint64_t addr, uint64_t at)
{
	int rc;

	if (c->depth == 1 && calls_top(c)->anchor == ANCHOR_NONE) {
		/* A return with another stack pointer may lead past some frames. */
		rc = arrival_changed_stack(c) ? calls_set_was_uncertain(c) : 0;
		if (rc == 0)
			rc = calls_pop(c, LEAVE_RETURN);
		return rc < 0 ? rc : push_root(c, at);
	}
	/* V8 jumps by returns, within its library and to code that it has compiled. */
	if (calls_top(c)->function == c->here.region || region_is_compiled(c->here.region)) {
		calls_top(c)->overwritten = true;
		rc = calls_top(c)->function == c->here.region ? 0 : tail_call(c);
		c->counts.unexplained++;
		return rc < 0 ? rc : calls_set_uncertain(c);
	}
	rc = unwind_to_function(c, addr, false);
	return rc != -ENOENT ? rc : replace_top(c, LEAVE_RETURN, CALL_ODD);
}

/* A function that a handler made the program call returns to where the program was interrupted. */
static bool is_interrupted_at(struct calls *c, uint64_t addr)
{
	return calls_top(c)->anchor == ANCHOR_RESUME && calls_top(c)->address == addr;
}

static int return_to_interrupted(struct calls *c)
{
	int rc = calls_pop(c, LEAVE_RETURN);

	return rc < 0 ? rc : arrival_match_top(c);
}

static bool is_kernel_trampoline(const struct calls_frame *f)
{
	return strcmp(f->function->name, "tramp_vectors") == 0;
}

/* The trampoline by which the kernel is entered calls itself, and goes on in the kernel's vectors by a return. */
static int leave_trampoline(struct calls *c)
{
	int rc = 0;

	while (rc == 0 && c->depth > 1 && is_kernel_trampoline(&c->stack[c->depth - 2]))
		rc = calls_pop(c, LEAVE_RETURN);
	return rc < 0 ? rc : tail_call(c);
}

int arrival_return_unmatched(struct calls *c, uint64_t addr)
{
	int rc;

	if (addr >> 63 && is_kernel_trampoline(calls_top(c)))
		return leave_trampoline(c);
	if (is_interrupted_at(c, addr))
		return return_to_interrupted(c);
	if (calls_top(c)->anchor != ANCHOR_RESUME)
		return return_without_frame(c, addr, addr - INSTRUCTION_SIZE);
	/* The handler returns to the trampoline, which asks the kernel to resume the program. */
	rc = replace_top(c, LEAVE_RETURN, CALL_SIGNAL);
	calls_top(c)->ended = true;
	return rc;
}

int arrival_return_elsewhere(struct calls *c, uint64_t addr)
{
	bool unknown = false;
	size_t depth;
	int rc;

	if (addr >> 63 && is_kernel_trampoline(calls_top(c)))
		return leave_trampoline(c);
	rc = fibres_switch(c, addr);
	if (rc != 0)
		return rc < 0 ? rc : arrival_match_top(c);
	/* An exception's landing pad may directly follow a call that does not return. */
	depth = find_catch_frame(c, addr, &unknown);
	if (depth != SIZE_MAX)
		return calls_pop_to(c, depth, LEAVE_UNWOUND);
	depth = calls_find_anchor(c, ANCHOR_RETURN, addr);
	if (depth != SIZE_MAX)
		return arrival_return_to(c, depth, LEAVE_RETURN);
	if (c->depth > 1 && calls_top(c)->anchor != ANCHOR_RESUME)
		return leave_by_stack_change(c, addr);
	return arrival_return_unmatched(c, addr);
}

/*
 * Handles a jump within the function on top after a change of the stack pointer: to a landing pad of this frame, or of
 * an outer frame of the same function.
 */
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
	bool sp_changed, unknown = false;
	size_t depth;
	int rc;

	rc = c->indirect && calls_top(c)->exits && calls_top(c)->function != to ? compiled_leave(c) : 0;
	if (rc == 0 && c->indirect && calls_top(c)->overwritten)
		rc = compiled_replace(c);
	if (rc < 0)
		return rc;
	sp_changed = c->indirect && arrival_changed_stack(c);
	if (calls_top(c)->function == to)
		return sp_changed ? catch_in_same_function(c, addr) : 0;
	rc = sp_changed ? fibres_switch(c, addr) : 0;
	if (rc != 0)
		return rc < 0 ? rc : arrival_match_top(c);
	/* Go's asyncPreempt ends in BR. */
	if (c->indirect && !sp_changed && is_interrupted_at(c, addr))
		return return_to_interrupted(c);
	if (addr == to->start)
		return sp_changed ? leave_by_stack_change(c, addr) : tail_call(c);
	depth = sp_changed ? find_catch_frame(c, addr, &unknown) : SIZE_MAX;
	if (depth != SIZE_MAX)
		return calls_pop_to(c, depth, LEAVE_UNWOUND);
	/* Functions in assembler may return by BR. */
	depth = calls_find_anchor(c, ANCHOR_RETURN, addr);
	if (depth != SIZE_MAX)
		return arrival_return_to(c, depth, depth + 1 == c->depth ? LEAVE_RETURN : LEAVE_UNWOUND);
	if (sp_changed)
		return leave_by_stack_change(c, addr);
	rc = jump_back(c);
	if (rc != 0)
		return MIN(rc, 0);
	/* A direct branch into another function is intended: functions in assembler share their ends. */
	if (!c->indirect || to->kind != REGION_FUNCTION)
		return tail_call(c);
	if (compiled_calls_back(c)) {
		rc = tail_call(c);
		return rc < 0 ? rc : calls_set_uncertain(c);
	}
	rc = unwind_to_function(c, addr, false);
	return rc != -ENOENT ? rc : replace_top(c, LEAVE_TAIL, CALL_ODD);
}

/* Returns the number of frames below the handler that has just ended, or SIZE_MAX if none has. */
static size_t find_handler_end(const struct calls *c, uint64_t addr)
{
	size_t depth = calls_find_anchor(c, ANCHOR_RESUME, addr), handler = c->depth;

	if (depth != SIZE_MAX || addr == c->here.region->start)
		return depth;
	/* A handler may change where the program resumes, and an interrupted system call may be restarted. */
	while (handler > 0 && c->stack[handler - 1].anchor != ANCHOR_RESUME)
		handler--;
	return handler ? calls_find_below(c, handler - 1, c->here.region) : SIZE_MAX;
}

static int enter_handler(struct calls *c, uint64_t addr, uint64_t resume)
{
	c->counts.signals++;
	return arrival_push(c, CALL_SIGNAL, ANCHOR_RESUME, resume);
}

/* Handles an exception whose handler, in the kernel, is traced; a system call contains it. */
static int enter_kernel(struct calls *c)
{
	int rc = arrival_push(c, CALL_KERNEL, ANCHOR_RESUME, c->has_successor ? c->successor : UINT64_MAX);

	if (rc < 0)
		return rc;
	/* Behind a gap for too many frames, the exception is older than the segment. */
	calls_top(c)->kernel = calls_top(c)->anchor == ANCHOR_RESUME;
	calls_top(c)->back = c->interrupted_back;
	/* A system call is no wait, then. */
	if (!c->kernel_traced && c->system_call && !c->emulated && !c->times.has_switches)
		event_times_drop_wait(&c->times);
	c->kernel_traced = true;
	return 0;
}

/* Returns the number of frames up to the innermost that an exception entered; 0: there is none. */
static size_t find_kernel_entry(const struct calls *c)
{
	size_t depth = c->depth;

	while (depth > 0 && !c->stack[depth - 1].kernel)
		depth--;
	return depth;
}

/* The kernel alone is traced: it has been entered again, and what the thread did meanwhile is not known. */
static int enter_kernel_alone(struct calls *c, uint64_t addr)
{
	int rc = calls_gap(c, GAP_PAUSED);

	c->arrival = ARRIVE_FLOW;
	c->called = addr;
	return rc < 0 ? rc : calls_segment(c);
}

/* Handles an exception return of the kernel: leaves its frames, so that the state is as if it had not been traced. */
static int leave_kernel(struct calls *c)
{
	size_t depth = find_kernel_entry(c);
	int rc;

	/* The exception was before the segment: what it interrupted is below all frames. */
	if (!depth)
		return c->depth > 1 && calls_top(c)->function->start >> 63 ? calls_pop_to(c, 1, LEAVE_RETURN) : 0;
	c->successor = c->stack[depth - 1].address;
	c->has_successor = c->successor != UINT64_MAX;
	c->interrupted_back = c->stack[depth - 1].back;
	c->exception_return = false;
	rc = calls_pop_to(c, depth - 1, LEAVE_RETURN);
	c->system_call = calls_in_syscall(c);
	return rc;
}

/* Returns true if exec replaced the program. */
static bool is_new_program(const struct calls *c, uint64_t addr)
{
	return c->system_call && region_is_entry(c->here.region, addr);
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

/*
 * Handles the end of a handler: control is in what it interrupted, in another handler that was pending, or where the
 * handler chose to resume.
 */
static int resume_after_handler(struct calls *c, uint64_t addr)
{
	uint64_t resume = calls_top(c)->address;
	int rc = calls_pop(c, LEAVE_RETURN);

	if (rc < 0)
		return rc;
	if (addr == resume || calls_top(c)->function == c->here.region)
		return arrival_match_top(c);
	return addr == c->here.region->start ? enter_handler(c, addr, resume) : return_without_frame(c, addr, addr);
}

/*
 * Handles control after the kernel: where the program was interrupted, in a new handler, or where a handler had begun.
 */
static int arrive_by_resume(struct calls *c, uint64_t addr)
{
	const struct region *to = c->here.region;
	/* What the kernel calls in firmware or a hypervisor returns behind the call, and is not traced. */
	bool returned = c->has_successor && addr == c->successor, restarted = c->restarted;
	size_t depth = SIZE_MAX;
	int rc = 0;

	c->restarted = false;
	if (addr >> 63 && c->exception_return && restarted && !find_kernel_entry(c))
		return enter_kernel_alone(c, addr);
	if (addr >> 63 && !c->exception_return && !returned)
		return enter_kernel(c);
	if (c->exception_return)
		rc = leave_kernel(c);
	if (rc == 0 && calls_in_syscall(c))
		rc = calls_pop(c, LEAVE_RETURN);
	if (rc < 0)
		return rc;
	/* A system call that is a function's last instruction returns into the next function. */
	if (c->has_successor && addr == c->successor)
		return c->system_call || (returned && c->calls_out) ? arrival_jump(c, addr) : 0;
	if (c->system_call && c->depth > 1 && calls_top(c)->ended)
		return resume_after_handler(c, addr);
	if (is_new_program(c, addr))
		return begin_program(c);
	if (c->system_call || c->exception_return)
		depth = find_handler_end(c, addr);
	if (depth != SIZE_MAX) {
		rc = calls_pop_to(c, depth, LEAVE_RETURN);
		return rc < 0 ? rc : arrival_match_top(c);
	}
	if (c->exception_return && calls_top(c)->function->start >> 63)
		return return_without_frame(c, addr, addr);
	if (addr == to->start || to->kind != REGION_FUNCTION)
		return enter_handler(c, addr, c->has_successor ? c->successor : UINT64_MAX);
	/* The kernel had the function go on elsewhere, after a fault that it expects. */
	if (c->depth == 1 && calls_top(c)->function == to)
		return calls_set_uncertain(c);
	return return_without_frame(c, addr, addr);
}

/* Control has left the function on top without a branch: where it goes on elsewhere than behind it, some is missing. */
static int arrive_without_branch(struct calls *c, uint64_t addr)
{
	bool odd = addr != c->successor;
	int rc = arrival_jump(c, addr);

	c->counts.unexplained += odd;
	return rc < 0 || !odd ? rc : calls_set_uncertain(c);
}

int arrival_transfer(struct calls *c, uint64_t addr)
{
	enum arrival arrival = c->arrival;

	c->arrival = ARRIVE_FLOW;
	switch (arrival) {
	case ARRIVE_SEGMENT:
		c->called = addr;
		return calls_segment(c);
	case ARRIVE_FLOW:
		return arrive_without_branch(c, addr);
	case ARRIVE_JUMP:
		return arrival_jump(c, addr);
	case ARRIVE_RESUME:
		return arrive_by_resume(c, addr);
	default:
		return 0;
	}
}
