/* SPDX-License-Identifier: MIT */
/*
 * What the files of lib/calls share: calls.c (elements), arrival.c (control transfers), stack.c (frames), inlined.c
 * (inlined functions of the frame on top), fibres.c (stacks that the thread has left), kernel.c (system calls).
 */
#ifndef CSIGHT_CALLS_CALLS_PRIVATE_H
#define CSIGHT_CALLS_CALLS_PRIVATE_H

#include "lib/base/array.h"
#include "lib/calls/event-times.h"
#include "lib/code/unwind.h"

enum { DEPTH_MAX = 1 << 16, INSTRUCTION_SIZE = 4 /* bytes, of A64 and A32 */ };

/* Which event ends a frame in the regular way. */
enum anchor {
	ANCHOR_NONE,   /* unknown */
	ANCHOR_RETURN, /* a return to address */
	ANCHOR_RESUME, /* the interrupted program resumes at address */
};

/* A function that left by a tail call, or by a jump that may be one. */
struct tail_caller {
	const struct region *function;
	const struct inlined *inlined, *root; /* as in struct calls_frame */
};

struct calls_frame {
	const struct region *function;
	/* innermost inlined function that control is in, or NULL; it and those around it are frames of their own */
	const struct inlined *inlined;
	/*
	 * Not NULL: the frame, its inlined function root, and all functions around root were open before the segment
	 * began; of these only root has been emitted.
	 */
	const struct inlined *root;
	uint64_t address;
	uint8_t anchor;
	bool kernel;   /* the kernel's handler of an exception: an exception return leaves it */
	bool back;     /* kernel: interrupted_back as it was at the exception */
	bool ended;    /* a handler that has returned to its trampoline, which asks the kernel to resume the program */
	bool saved;    /* a function that jumped here saves the stack pointer */
	bool resolves; /* the resolver of lazy binding, entered from the first entry of a PLT */
	bool exits;    /* an exit from compiled code, until its call has returned: a part of the interpreter */
	/*
	 * The function set the link register to another address and jumped by a return. So it will not return to its
	 * caller, unless the return address is on the stack as well.
	 */
	bool overwritten;
	bool folded;       /* tail calls replace one another in the first function of the chain */
	uint8_t n_callers; /* functions that tail called the present one, directly or not; the last of c->callers */
	uint32_t below;    /* number of functions open below the present one, with tail callers and inlined functions */
};

/* A return address at which a function has saved the stack pointer, such as setjmp: a jump there may restore it. */
struct saved_sp {
	size_t depth; /* number of frames, with the one returned to on top */
	uint64_t address;
};

/* A stack that the thread has left and may come back to. */
struct fibre {
	struct calls_frame *frames;
	size_t n;
	struct tail_caller *callers;
	size_t n_callers;
	struct saved_sp *saved;
	size_t n_saved;
	bool uncertain;      /* another saved stack may have been the one left */
	bool candidate;      /* it may be the stack that the thread is on now */
	size_t resume_depth; /* candidate: number of frames that remain when the thread comes back */
};

struct fibres {
	struct fibre *list; /* the one left longest ago first */
	size_t n, cap_list;
	size_t frames; /* total of all stacks, with tail callers */
	size_t n_candidates;
	bool foreign; /* the thread has come to a stack that another one left */
};

/* How control reaches the next address. */
enum arrival {
	ARRIVE_SEGMENT, /* unknown: a segment begins */
	ARRIVE_FLOW,    /* from the instruction before */
	ARRIVE_JUMP,
	ARRIVE_CALL,
	ARRIVE_RETURN,
	ARRIVE_RESUME, /* after an exception or an exception return */
	/*
	 * In a filtered trace, after an exception at the target of a branch, where nothing was executed: as c->branched
	 * if trace goes on there, else the filter leaves the target out.
	 */
	ARRIVE_INTERRUPTED,
	/* Trace stopped where the kernel switches to another thread: control comes back to the function on top. */
	ARRIVE_SWITCHED,
	/* As c->stamped; c->stamp is a timestamp that waits for what follows it (on_timestamp()). */
	ARRIVE_STAMPED,
};

struct calls {
	struct region_map *regions;
	const struct region_hit *recent; /* recent results of the region map */
	struct inlined_memo *memos;      /* memos of the region map for inlined.c, or NULL */
	struct event_times times;
	struct calls_counts counts;
	struct calls_frame *stack;
	size_t depth, cap_stack;
	struct tail_caller *callers; /* of all frames, those of the outermost frame first */
	size_t n_callers, cap_callers;
	struct saved_sp *saved; /* sorted by depth */
	size_t n_saved, cap_saved;
	struct fibres fibres;
	size_t uncertain_below; /* not 0: some of the frames below this depth may already have been left */
	bool stack_uncertain;   /* the thread may be on another of the saved stacks */
	bool emitted_uncertain;
	bool unsettled; /* the depth is uncertain until the next event */
	/* The trace of the emulated trace unit shows more of a system call (calls_set_emulated()). */
	bool emulated;
	uint8_t call_digits, call_stamps; /* number of events and of timestamps since it began */
	uint32_t call_number;             /* the digits so far */
	calls_syscall_fn find_syscall;    /* or NULL */
	void *find_user;
	/* the interval of addresses that holds control: same region, same inlined functions */
	struct region_hit here;
	uint64_t address;    /* where control arrived last */
	uint64_t last_start; /* start of the interval of addresses before that one */
	uint64_t called;     /* where the last call came to */
	enum arrival arrival;
	enum arrival branched; /* ARRIVE_INTERRUPTED: how the branch arrives at its target, branch_target */
	uint64_t branch_target;
	enum arrival stamped; /* ARRIVE_STAMPED */
	uint64_t stamp;
	bool filtered; /* the trace leaves out addresses, at each of which it stops and starts (calls_set_filtered()) */
	bool filters_known;
	/* the address after the last instruction; after an exception: its preferred return address */
	uint64_t successor;
	bool has_successor;
	bool interrupted_back;              /* after an exception: it came directly behind a jump to a lower address */
	enum leave_kind last_leave;         /* kind of the last leave since the last range */
	bool resumed_begins;                /* a function that was resumed first turned out to begin a call */
	bool indirect;                      /* ARRIVE_JUMP: by an indirect branch */
	bool system_call, exception_return; /* ARRIVE_RESUME: what it comes back from */
	bool restarted;                     /* tracing has started again since the exception return */
	bool calls_out;                     /* ARRIVE_RESUME: by an instruction, also one of the kernel */
	bool kernel_traced;                 /* what the kernel executes is in the trace */
};

/*
 * Returns true if the function of the frame, or one that it replaced, saves the stack pointer. The kernel's does so to
 * switch to another thread.
 */
static inline bool calls_frame_saves(const struct calls_frame *f)
{
	return f->saved || (f->function->stack_use & UNWIND_SAVES_STACK && !(f->function->start >> 63));
}

/* kernel.c. */
extern const struct region calls_waiting, calls_preempted;

/* Returns the region of a system call by number; negative or unknown: that of an unnamed one. */
const struct region *calls_syscall_region(int64_t number);

/* Returns true if the kernel is traced and may switch to another thread here, and it is of interest when. */
bool calls_may_switch(const struct calls *c);

/* Notes that it does. */
int calls_add_switch(struct calls *c);

/* Handles a context. On a shared sink, that of the thread comes again where the trace of others ends. */
int calls_context(struct calls *c, const struct element *e);

/*
 * Handles trace that the kernel has stopped at a switch to another thread, and starts at the switch back: leaves the
 * frames above the function that switches, SWITCHED is next; gap if that function is not open.
 */
int calls_switch(struct calls *c);

/* stack.c. Functions return 0, -ENOMEM, or a negative error of the sink. */
static inline struct calls_frame *calls_top(struct calls *c)
{
	return c->depth ? &c->stack[c->depth - 1] : NULL;
}

static inline bool calls_in_syscall(const struct calls *c)
{
	return c->depth && c->stack[c->depth - 1].function->kind == REGION_SYSCALL;
}

/* Returns the number of functions open up to a frame, with tail callers and inlined functions. */
static inline uint32_t calls_open(const struct calls_frame *f)
{
	return f->below + 1 + (f->inlined ? f->inlined->depth : 0);
}

/* Marks the depth as certain. */
int calls_set_certain(struct calls *c);

static inline int calls_emit(struct calls *c, enum call_event_type type, unsigned kind, const struct region *function)
{
	int rc = c->unsettled ? calls_set_certain(c) : 0;

	return rc < 0 ? rc : event_times_add(&c->times, c->counts.instructions, type, kind, function, NULL);
}

int calls_emit_inlined(struct calls *c, enum call_event_type type, unsigned kind, const struct inlined *inlined);

/* inlined.c: emits enters of the inlined functions that the new frame on top is in. */
int inlined_enter(struct calls *c, enum call_kind kind);

/* Leaves all inlined functions of the frame on top. */
int inlined_leave(struct calls *c, enum leave_kind kind);

/* Pushes a frame. */
static inline int calls_push(struct calls *c, enum call_event_type type, enum call_kind kind, struct calls_frame frame)
{
	int rc = array_reserve(c->stack, c->depth, &c->cap_stack);

	if (rc < 0)
		return rc;
	frame.below = c->depth ? calls_open(calls_top(c)) : 0;
	c->stack[c->depth++] = frame;
	c->counts.deepest = (uint32_t)MAX(c->counts.deepest, c->depth);
	if (type == CALL_EVENT_ROOT && frame.root)
		return calls_emit_inlined(c, type, kind, frame.root);
	rc = calls_emit(c, type, kind, frame.function);
	return rc < 0 || !frame.inlined ? rc : inlined_enter(c, kind);
}

/* Leaves the function on top, with those inlined in it. The frame remains. */
static inline int calls_leave(struct calls *c, enum leave_kind kind)
{
	int rc = calls_top(c)->inlined ? inlined_leave(c, kind) : 0;

	c->last_leave = kind;
	return rc < 0 ? rc : calls_emit(c, CALL_EVENT_LEAVE, kind, calls_top(c)->function);
}

/* Leaves the functions of the frame on top that others tail called. */
int calls_pop_callees(struct calls *c, enum leave_kind kind);

/* Updates the uncertainty of the frames that remain, after one was left. */
int calls_popped(struct calls *c);

/* Leaves the frame on top, with its tail callers. */
static inline int calls_pop(struct calls *c, enum leave_kind kind)
{
	int rc = calls_top(c)->n_callers ? calls_pop_callees(c, kind) : 0;

	if (rc == 0)
		rc = calls_leave(c, kind);
	if (rc < 0)
		return rc;
	c->depth--;
	while (c->n_saved && c->saved[c->n_saved - 1].depth > c->depth)
		c->n_saved--;
	if (kind == LEAVE_UNWOUND)
		c->counts.unwound++;
	return !c->uncertain_below || c->stack_uncertain ? 0 : calls_popped(c);
}

/* Makes the function on top a tail caller; another function takes its place. */
int calls_push_callee(struct calls *c, enum call_kind kind, const struct region *function,
		      const struct inlined *inlined);

/* Leaves the function on top, and makes its tail caller the function on top again. */
int calls_pop_callee(struct calls *c, enum leave_kind kind);

/* Leaves frames until depth remain. The last one is left as `last`, those above it as LEAVE_UNWOUND. */
static inline int calls_pop_to(struct calls *c, size_t depth, enum leave_kind last)
{
	int rc = 0;

	while (rc == 0 && c->depth > depth)
		rc = calls_pop(c, c->depth == depth + 1 ? last : LEAVE_UNWOUND);
	return rc;
}

/* Leaves all frames with the same kind. */
int calls_pop_all(struct calls *c, enum leave_kind kind);

/*
 * Finds the innermost frame with this anchor; one whose return address was overwritten only if there is no other.
 * Returns the number of frames that are older than it, or SIZE_MAX.
 */
static inline size_t calls_find_anchor(const struct calls *c, enum anchor anchor, uint64_t address)
{
	size_t overwritten = SIZE_MAX;

	for (size_t i = c->depth; i-- > 0;) {
		if (c->stack[i].anchor != anchor || c->stack[i].address != address)
			continue;
		if (!c->stack[i].overwritten)
			return i;
		overwritten = overwritten == SIZE_MAX ? i : overwritten;
	}
	return overwritten;
}

/* Returns how many of the lowest depth frames remain when the innermost one of this function is on top, or SIZE_MAX. */
size_t calls_find_below(const struct calls *c, size_t depth, const struct region *function);

/* Records that a saved stack pointer leads to the frame on top when control jumps to address. -ENOMEM. */
int calls_saved_add(struct calls *c, uint64_t address);
int calls_saved_push(struct calls *c, const struct saved_sp *saved);

/*
 * Finds frames that a saved stack pointer leads to from address. Returns the depth with the innermost one on top, or
 * SIZE_MAX; *ret_outermost is the depth of the outermost one.
 */
size_t calls_saved_find(const struct calls *c, uint64_t address, size_t *ret_outermost);

/* Marks the depth as uncertain: some of the frames that remain may already have been left. */
int calls_set_uncertain(struct calls *c);

/* Marks the depth as uncertain from the beginning of the segment up to here. */
int calls_set_was_uncertain(struct calls *c);

/* Marks it as uncertain until the next event, unless it is already. */
int calls_set_unsettled(struct calls *c);

/* Marks the depth as certain if no frame waits for a return to address. */
int calls_confirm_by(struct calls *c, uint64_t address);

/*
 * Marks the depth as certain if the return to address that has just been made proves it. uncertain_below: as it was
 * before the return.
 */
static inline int calls_confirm_return(struct calls *c, uint64_t address, size_t uncertain_below)
{
	bool certain = !c->uncertain_below || c->stack_uncertain || c->depth >= uncertain_below;

	return certain ? 0 : calls_confirm_by(c, address);
}

/* Sets c->here to the region and inlined functions of addr. */
static inline int calls_set_here(struct calls *c, uint64_t addr)
{
	if (region_hit_holds(&c->here, addr, c->times.stamp) ||
	    region_recall(c->recent, addr, c->times.stamp, &c->here))
		return 0;
	return region_map_find(c->regions, addr, c->times.stamp, &c->here);
}

/* Ends the segment with a gap: leaves all frames, and forgets saved stacks. */
int calls_gap(struct calls *c, enum gap_kind kind);

/* Begins a segment in the function that control is in. */
int calls_segment(struct calls *c);

/* compiled.c: returns true if r is code of no known file, which a compiler may have made while the program ran. */
static inline bool region_is_compiled(const struct region *r)
{
	return r->kind == REGION_ANON || r->kind == REGION_UNKNOWN;
}

/* As compiled_exits(), for a call into the middle of a function. */
bool compiled_exits_into(const struct calls *c);

/* Returns true if the call that has brought control to addr, which c->here describes, is an exit from compiled code. */
static inline bool compiled_exits(const struct calls *c, uint64_t addr)
{
	return addr != c->here.region->start && compiled_exits_into(c);
}

/* Leaves the compiled code that an exit, the frame on top (member exits), has left for the interpreter. */
int compiled_leave(struct calls *c);

/*
 * Handles a jump of the function on top, whose return address was overwritten. If the jump leads to compiled code, that
 * code replaces the caller of the function on top, and the frame on top is left.
 */
int compiled_replace(struct calls *c);

/* Returns true if a jump from the function on top may be that of a callback: compiled code that others called. */
bool compiled_calls_back(const struct calls *c);

/*
 * inlined.c: control of the frame on top is at addr, which c->here describes: begins the calls of inlined functions
 * that are entered there, and leaves and resumes others. backward: by a jump to a lower address within the frame.
 */
int inlined_arrive(struct calls *c, uint64_t addr, bool backward, enum leave_kind kind);

/*
 * Applies the memoised moves of a range that stays in the function on top; last: address of its last instruction;
 * backward: as of its start. Returns 1 if applied, 0 if there is no memo or it does not apply now.
 */
int inlined_replay(struct calls *c, const struct element *e, uint64_t last, bool backward);

/* Memoises the moves of a range; from: the inlined function that control was in before it. */
void inlined_memoise(struct calls *c, const struct element *e, uint64_t last, const struct inlined *from);

void inlined_init(struct calls *c);

/*
 * fibres.c: handles control that arrives at address with another stack pointer. Returns 1 if it is on a saved stack,
 * whose frames have been entered, and 0 if not.
 */
int fibres_switch(struct calls *c, uint64_t address);

/* Returns true if a later switch could come back to the present stack. */
bool fibres_can_return(const struct calls *c);

/* Saves the current stack if a switch may come back to it, and begins an unknown one. */
int fibres_begin(struct calls *c);

/* As fibres_return(), where there are candidates. */
int fibres_return_among(struct calls *c, uint64_t address);

/*
 * Handles a return to address while it is uncertain which of several stacks this is. Returns 1 if it proves to be
 * another one, whose frames have been entered and the return made; else 0.
 */
static inline int fibres_return(struct calls *c, uint64_t address)
{
	return c->fibres.n_candidates ? fibres_return_among(c, address) : 0;
}
void fibres_forget(struct calls *c);

#endif
