/*
 * What the parts of lib/calls share: calls.c (what elements mean), stack.c (the frames), inlined.c (the inlined
 * functions in them), fibres.c (the stacks that a thread has beside the one it is on).
 */
#ifndef CSIGHT_CALLS_STATE_H
#define CSIGHT_CALLS_STATE_H

#include "lib/calls/spread.h"

enum { DEPTH_MAX = 1 << 16 };

/* What must happen for a frame to be left the regular way. */
enum anchor {
	ANCHOR_NONE,   /* not known */
	ANCHOR_RETURN, /* a return to address */
	ANCHOR_RESUME, /* an interrupted program goes on at address */
};

struct frame {
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
struct mark {
	size_t depth; /* with that frame on top */
	uint64_t address;
};

/* A stack that the thread has left, and can come back to. */
struct fibre {
	struct frame *frames;
	size_t n;
	struct mark *marks;
	size_t n_marks;
	bool doubtful; /* whether it was this one that was left */
	bool possible; /* it may be the one that the thread is on now */
	size_t at;     /* possible: how many of its frames are left, then */
};

struct fibres {
	struct fibre *list; /* the one left longest ago first */
	size_t n, room;
	size_t frames; /* of all */
	size_t possible;
};

/* How the next range is reached. */
enum next {
	NEXT_SEGMENT, /* from nowhere: it begins a segment */
	NEXT_FLOW,    /* from the instruction before it */
	NEXT_JUMP,
	NEXT_CALL,
	NEXT_RETURN,
	NEXT_RESUME, /* after an exception, or a return from one */
};

struct calls {
	struct region_map *regions;
	const struct region_hit *recent; /* of those */
	struct walk *walks;              /* the same; or NULL */
	struct spread spread;
	struct calls_counts counts;
	struct frame *stack;
	size_t depth, room;
	struct mark *marks; /* by depth */
	size_t n_marks, room_marks;
	struct fibres fibres;
	size_t unsure; /* not 0: of the frames below this depth some may have been left already */
	bool doubtful; /* which of several stacks this is */
	bool told_unsure;
	struct region_hit here; /* of the last address arrived at */
	uint64_t stretch;       /* where that began, of what was looked at before */
	enum next next;
	uint64_t from; /* the address after the last instruction; of an exception: where it says to go on */
	bool has_from;
	enum leave_kind left;               /* how the last frame was left, of those since the last range */
	bool indirect;                      /* NEXT_JUMP: not by the instruction alone */
	bool system_call, exception_return; /* NEXT_RESUME: what it was */
};

/* Of the function that a frame is of, or was before it jumped on. */
bool frame_saves(const struct frame *f);

/* stack.c. Negative returns are the sink's. */
static inline struct frame *top(struct calls *c)
{
	return c->depth ? &c->stack[c->depth - 1] : NULL;
}

int calls_put(struct calls *c, enum call_event_type type, unsigned kind, const struct region *function);
int calls_put_inlined(struct calls *c, enum call_event_type type, unsigned kind, const struct inlined *inlined);
int calls_push(struct calls *c, enum call_event_type type, enum call_kind kind, struct frame frame);
int calls_pop(struct calls *c, enum leave_kind kind);

/* Down to so many frames; the last one that goes is left in its own way. */
int calls_pop_to(struct calls *c, size_t depth, enum leave_kind last);

/* All go, in the same way. */
int calls_pop_all(struct calls *c, enum leave_kind kind);

/* The depth below the innermost frame with this anchor; SIZE_MAX: none. */
size_t calls_find_anchor(const struct calls *c, enum anchor anchor, uint64_t address);

/* The depth that leaves the innermost frame of this function, of those below depth, on top; SIZE_MAX: none. */
size_t calls_find_below(const struct calls *c, size_t depth, const struct region *function);

/* The frame on top may be jumped to at this address from now on. -ENOMEM. */
int calls_mark(struct calls *c, uint64_t address);
int calls_mark_at(struct calls *c, const struct mark *mark);

/* The depth that has the innermost frame so marked on top, and that of the outermost; SIZE_MAX: none. */
size_t calls_find_mark(const struct calls *c, uint64_t address, size_t *ret_outermost);

/* Of the frames that are left, some may have been left already. */
int calls_unsure(struct calls *c);

/* A return to address was made, to the frame that is on top now: it may settle that. unsure: as it was before. */
int calls_returned(struct calls *c, uint64_t address, size_t unsure);

/* It is known after all. */
int calls_sure(struct calls *c);

/* Where control is now. */
static inline int look(struct calls *c, uint64_t addr)
{
	if (region_hit_holds(&c->here, addr, c->spread.stamp) ||
	    region_recall(c->recent, addr, c->spread.stamp, &c->here))
		return 0;
	return region_map_find(c->regions, addr, c->spread.stamp, &c->here);
}

/* inlined.c: the frame on top enters all that it says it is in. */
int inlined_enter(struct calls *c, enum call_kind kind);

/* What it is in is left. */
int inlined_leave(struct calls *c, enum leave_kind kind);

/* Control is in the frame on top, in this: what is around that stays, the rest is left and entered. */
int inlined_move(struct calls *c, const struct inlined *to, enum leave_kind kind);

/*
 * The same of a range that stays in the function on top, from first to last, all the way: as it was found out before.
 * 1: done; 0: it is not known, or this is no time for it.
 */
int inlined_walk(struct calls *c, const struct element *e, uint64_t last);

/* Finds it out; from: in which control was before. */
void inlined_learn(struct calls *c, const struct element *e, uint64_t last, const struct inlined *from);

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
