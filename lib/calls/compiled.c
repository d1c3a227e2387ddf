/* SPDX-License-Identifier: MIT */
/*
 * Code that a compiler makes while the program runs, in memory of no file, and how it goes back to the interpreter that
 * had jumped to it.
 *
 * Code of LuaJIT leaves by a call that does not return, to pass the number of the exit as return address: it calls a
 * stub at its end, which stores the link register and calls the exit handler. That is in the middle of the interpreter,
 * makes one call, restores the stack pointer, and continues the interpreter.
 *
 * V8 replaces a function by its compiled code while the function runs: the interpreter's handler of a backward jump, or
 * a function that the older code called, sets the link register to the next instruction, executes a return to that
 * instruction, and jumps to the compiled code. The compiled code continues in the frame of the replaced function, and
 * returns to its caller.
 */
#include "lib/calls/calls-private.h"

enum { STUB_SIZE = 2 * INSTRUCTION_SIZE };

/*
 * Returns the index of the frame in which an interpreter jumped to the compiled code that is on top of the lowest depth
 * frames; *ret_interpreter: the function that jumped. NULL: it did so before the segment began, and the frame is the
 * outermost one. SIZE_MAX if there is none.
 */
static size_t find_interpreter(const struct calls *c, size_t depth, const struct region **ret_interpreter)
{
	size_t callers = c->n_callers, i = c->depth;

	while (i-- > 0) {
		const struct calls_frame *f = &c->stack[i];

		if (i < depth && !region_is_compiled(f->function))
			return SIZE_MAX;
		if (i < depth && f->n_callers) {
			*ret_interpreter = c->callers[callers - 1].function;
			return i;
		}
		callers -= f->n_callers;
	}
	*ret_interpreter = NULL;
	return depth && c->stack[0].anchor == ANCHOR_NONE ? 0 : SIZE_MAX;
}

/* Returns true if control has come to the function on top by a call, and left it by its second instruction. */
static bool is_stub(const struct calls *c)
{
	return c->successor >= c->called && c->successor - c->called <= STUB_SIZE &&
	       (c->depth == 1 ||
		(c->successor - c->called == STUB_SIZE && region_is_compiled(c->stack[c->depth - 2].function)));
}

bool compiled_exits_into(const struct calls *c)
{
	const struct region *interpreter, *to = c->here.region;

	return region_is_compiled(c->stack[c->depth - 1].function) && !region_is_compiled(to) && is_stub(c) &&
	       find_interpreter(c, c->depth, &interpreter) != SIZE_MAX && (!interpreter || interpreter == to);
}

int compiled_leave(struct calls *c)
{
	const struct region *interpreter, *function = calls_top(c)->function;
	size_t i = find_interpreter(c, c->depth - 1, &interpreter);
	int rc;

	calls_top(c)->exits = false;
	if (i == SIZE_MAX)
		return 0;
	rc = calls_pop_to(c, i + (interpreter != NULL), LEAVE_UNWOUND);
	if (rc == 0)
		rc = interpreter
			 ? calls_pop_callee(c, LEAVE_BACK)
			 : calls_push(c, CALL_EVENT_ENTER, CALL_INFERRED, (struct calls_frame){ .function = function });
	return rc < 0 ? rc : calls_set_unsettled(c);
}

int compiled_replace(struct calls *c)
{
	if (c->depth == 1 || !region_is_compiled(c->here.region) || region_is_compiled(calls_top(c)->function))
		return 0;
	return calls_pop(c, LEAVE_UNWOUND);
}

bool compiled_calls_back(const struct calls *c)
{
	const struct calls_frame *f = &c->stack[c->depth - 1];

	return region_is_compiled(f->function) && !f->n_callers && f->anchor == ANCHOR_RETURN;
}
