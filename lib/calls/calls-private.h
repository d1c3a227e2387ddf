/*
 * What the parts of lib/calls share: calls.c (what elements mean), stack.c (the frames), inlined.c (the inlined
 * functions in them), fibres.c (the stacks that a thread has beside the one it is on).
 */
#ifndef CSIGHT_CALLS_CALLS_PRIVATE_H
#define CSIGHT_CALLS_CALLS_PRIVATE_H

#include "lib/calls/event-times.h"

enum { DEPTH_MAX = 1 << 16, INSTRUCTION_SIZE = 4 /* bytes, of A64 and A32 */ };

/* What must happen for a frame to be left the regular way. */
enum anchor {
	ANCHOR_NONE,   /* not known */
	ANCHOR_RETURN, /* a return to address */
	ANCHOR_RESUME, /* an interrupted program goes on at address */
};

struct calls_frame {
	const struct region *function; /* NULL: in a system call */
	const struct inlined
	    *inlined; /* in which it is now: with all around it they are frames of their own; or NULL */
	/*
	 * It was open before the segment began, and so was what is inlined here, the innermost, and all around it; of
	 * those only this one has been told yet.
	 */
	const struct inlined *root;
	uint64_t address;
	uint8_t anchor;
	bool ended; /* a handler, which has returned to where it asks for the interrupted program to go on */
	bool saved; /* what it was before it jumped here saves the stack pointer */
};

/* A frame got back from a function that saves the stack pointer: a jump to the same place may lead to it. */
struct saved_sp {
	size_t depth; /* with that frame on calls_top */
	uint64_t address;
};

/* A stack that the thread has left, and can come back to. */
struct fibre {
	struct calls_frame *frames;
	size_t n;
	struct saved_sp *saved;
	size_t n_saved;
	bool uncertain; /* whether it was this one that was left */
	bool candidate; /* it may be the one that the thread is on now */
	size_t at;      /* possible: how many of its frames are left, then */
};

struct fibres {
	struct fibre *list; /* the one left longest ago first */
	size_t n, cap_list;
	size_t frames; /* of all */
	size_t n_candidates;
};

/* How the next range is reached. */
enum arrival {
	ARRIVE_SEGMENT, /* from nowhere: it begins a segment */
	ARRIVE_FLOW,    /* from the instruction before it */
	ARRIVE_JUMP,
	ARRIVE_CALL,
	ARRIVE_RETURN,
	ARRIVE_RESUME, /* after an exception, or a return from one */
};

struct calls {
	struct region_map *regions;
	const struct region_hit *recent; /* of those */
	struct inlined_memo *memos;      /* the same; or NULL */
	struct event_times times;
	struct calls_counts counts;
	struct calls_frame *stack;
	size_t depth, cap_stack;
	struct saved_sp *saved; /* by depth */
	size_t n_saved, cap_saved;
	struct fibres fibres;
	size_t uncertain_below; /* not 0: of the frames below this depth some may have been left already */
	bool stack_uncertain;   /* which of several stacks this is */
	bool emitted_uncertain;
	struct region_hit here; /* of the last address arrived at */
	uint64_t last_start;    /* where that began, of what was looked at before */
	enum arrival arrival;
	uint64_t successor; /* the address after the last instruction; of an exception: where it says to go on */
	bool has_successor;
	enum leave_kind last_leave;         /* how the last frame was left, of those since the last range */
	bool indirect;                      /* ARRIVE_JUMP: not by the instruction alone */
	bool system_call, exception_return; /* ARRIVE_RESUME: what it was */
};

/* Of the function that a frame is of, or was before it jumped on. */
bool calls_frame_saves(const struct calls_frame *f);

/* stack.c. Negative returns are the sink's. */
static inline struct calls_frame *calls_top(struct calls *c)
{
	return c->depth ? &c->stack[c->depth - 1] : NULL;
}

int calls_emit(struct calls *c, enum call_event_type type, unsigned kind, const struct region *function);
int calls_emit_inlined(struct calls *c, enum call_event_type type, unsigned kind, const struct inlined *inlined);
int calls_push(struct calls *c, enum call_event_type type, enum call_kind kind, struct calls_frame frame);
int calls_pop(struct calls *c, enum leave_kind kind);

/* Down to so many frames; the last one that goes is left in its own way. */
int calls_pop_to(struct calls *c, size_t depth, enum leave_kind last);

/* All go, in the same way. */
int calls_pop_all(struct calls *c, enum leave_kind kind);

/* The depth below the innermost frame with this anchor; SIZE_MAX: none. */
size_t calls_find_anchor(const struct calls *c, enum anchor anchor, uint64_t address);

/* The depth that leaves the innermost frame of this function, of those below depth, on calls_top; SIZE_MAX: none. */
size_t calls_find_below(const struct calls *c, size_t depth, const struct region *function);

/* The frame on calls_top may be jumped to at this address from now on. -ENOMEM. */
int calls_saved_add(struct calls *c, uint64_t address);
int calls_saved_push(struct calls *c, const struct saved_sp *saved);

/* The depth that has the innermost frame so marked on calls_top, and that of the outermost; SIZE_MAX: none. */
size_t calls_saved_find(const struct calls *c, uint64_t address, size_t *ret_outermost);

/* Of the frames that are left, some may have been left already. */
int calls_set_uncertain(struct calls *c);

/* A return to address was made, to the frame that is on calls_top now: it may settle that. uncertain_below: as it was
 * before. */
int calls_confirm_return(struct calls *c, uint64_t address, size_t uncertain_below);

/* It is known after all. */
int calls_set_certain(struct calls *c);

/* Where control is now. */
static inline int calls_locate(struct calls *c, uint64_t addr)
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

/* arrival.c: control arrives at addr, which c->here describes, other than by a step within the function on top. */
int arrival_transfer(struct calls *c, uint64_t addr);

/* The same for a jump, or for one function continuing into the next. */
int arrival_jump(struct calls *c, uint64_t addr);

/* inlined.c: the frame on calls_top enters all that it says it is in. */
int inlined_enter(struct calls *c, enum call_kind kind);

/* What it is in is left. */
int inlined_leave(struct calls *c, enum leave_kind kind);

/* Control is in the frame on calls_top, in this: what is around that stays, the rest is left and entered. */
int inlined_move(struct calls *c, const struct inlined *to, enum leave_kind kind);

/*
 * The same of a range that stays in the function on calls_top, from first to last, all the way: as it was found out
 * before. 1: done; 0: it is not known, or this is no time for it.
 */
int inlined_replay(struct calls *c, const struct element *e, uint64_t last);

/* Finds it out; from: in which control was before. */
void inlined_memoise(struct calls *c, const struct element *e, uint64_t last, const struct inlined *from);

void inlined_init(struct calls *c);

/* fibres.c: control comes to address with another stack pointer. 1: on a stack that was left; 0: not on one of those.
 */
int fibres_switch(struct calls *c, uint64_t address);

/* Whether anything could switch back to the present stack. */
bool fibres_saved(const struct calls *c);

/* The same, on a stack not seen before. */
int fibres_begin(struct calls *c);

/*
 * A return to address is about to be made, while it is not sure which of several the stack is. 1: it was another one,
 * and the return has been made there.
 */
int fibres_return(struct calls *c, uint64_t address);
void fibres_forget(struct calls *c);

#endif
