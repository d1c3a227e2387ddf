/*
 * From elements to call stacks: what one thread entered and left, when. One struct calls a thread, fed in stream order;
 * it pushes events to its sink, in order of time, each leave matching the innermost open enter. Never aborts: what it
 * cannot explain it counts and saved.
 *
 * Time. Timestamps stand between ranges; what lies between two of them is spread by the cycles that the trace counts,
 * else by instructions executed, and what is left over belongs to system calls and gaps. So events come out when a
 * later timestamp comes; calls_end() flushes. Times never go back; equal ones keep their order.
 *
 * Ranges may come one by one, or several in one (struct element). So what runs on within a region, not by a call or a
 * return, and follows a range without anything but cycles in between, must change nothing; and which region an address
 * is in may only change at timestamps.
 *
 * Inlined functions are entered and left as the instructions that run are in them. Control that only moves on, to
 * higher addresses, out of some and back into the very same with nothing else entered or left was in them all the
 * while: the compiler mixed their instructions with those around them. A timestamp in between parts them.
 *
 * A segment is a stretch of trace without a gap. Frames that were open when it began show only when something returns
 * into them: CALL_EVENT_ROOT tells of one, the outermost last. A reader who wants the whole stack from the segment's
 * start puts them below everything else of that segment (the store does).
 *
 * A thread that goes on to another stack leaves all frames and begins a segment without a gap before it; frames of a
 * stack that it was on before are entered again, as CALL_RESUMED.
 */
#ifndef CSIGHT_CALLS_H
#define CSIGHT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/code/symbols.h"
#include "lib/etm/element.h"

enum call_event_type {
	CALL_EVENT_SEGMENT, /* tracing begins here, with an empty stack */
	CALL_EVENT_ENTER,
	CALL_EVENT_LEAVE,
	CALL_EVENT_ROOT, /* the stack was empty: a frame open since the segment's start is now the only one */
	CALL_EVENT_GAP,  /* the segment ended here; every frame has been left */
	CALL_EVENT_MARK, /* what is known of the stack changed */
	CALL_EVENT_MOVE, /* some inlined functions return, and others are entered as CALL_INLINED, all at once; see
			    struct calls_sink */
};

/* How a frame came to be. */
enum call_kind {
	CALL_PLAIN,
	CALL_TAIL,     /* jumped to in place of the frame that was here */
	CALL_SIGNAL,   /* a signal's handler, on calls_top of what it interrupted */
	CALL_KERNEL,   /* an exception's handler in the kernel */
	CALL_SYSCALL,  /* no function: the time between a system call and its return */
	CALL_INFERRED, /* was running, or waiting, when the segment began */
	CALL_ODD,      /* reached in a way that calls do not explain */
	CALL_RESUMED,  /* entered before: the thread came back to the stack that it is on */
	CALL_INLINED,  /* code of another function that the compiler put here */
};

/* How it ended. */
enum leave_kind {
	LEAVE_RETURN,
	LEAVE_TAIL,    /* another took its place */
	LEAVE_UNWOUND, /* passed over: longjmp, an exception thrown, a handler that never returned */
	LEAVE_GAP,
	LEAVE_END,    /* still running when the trace ended, or the program was replaced */
	LEAVE_SWITCH, /* the thread went on to another stack: a fibre, a goroutine */
};

enum gap_kind {
	GAP_NO_SYNC,   /* the stream was cut, or not understood */
	GAP_OVERFLOW,  /* the trace unit lost bytes */
	GAP_NO_IMAGE,  /* code that nobody could give */
	GAP_BAD_IMAGE, /* the code is not what ran, or the trace was garbled */
	GAP_PAUSED,    /* tracing was off: a freeze, a filter */
	GAP_DEPTH,     /* more frames than are committed */
};

enum mark_kind {
	MARK_UNCERTAIN, /* of a recursion, or of several stacks, one was taken: it may be another */
	MARK_CERTAIN,   /* no more */
};

const char *calls_kind_str(enum call_kind kind);
const char *calls_leave_str(enum leave_kind kind);
const char *calls_gap_str(enum gap_kind kind);
const char *calls_mark_str(enum mark_kind kind);

struct call_event {
	enum call_event_type type;
	uint8_t kind;                  /* enum call_kind, leave_kind, gap_kind or mark_kind, as the type has it */
	uint64_t time;                 /* ns */
	uint64_t instructions;         /* of this thread, executed before this event */
	uint64_t bound;                /* its time is off by no more; UINT64_MAX: not known */
	const struct region *function; /* enter, root; NULL for CALL_SYSCALL */
	const struct inlined *
	    inlined; /* enter, root: where, if that function is inlined there; else NULL. Move: the innermost entered */
	uint8_t left, entered; /* move: so many, from the inside out, and from the outside in */
};

/* A negative return stops the decode and comes back from calls_element() or calls_end(). */
struct calls_sink {
	int (*event)(void *user, const struct call_event *e);
	void *user;
	bool moves; /* it is told of a move as one event; else as each leave and enter of it */
};

struct calls_counts {
	uint64_t instructions, ranges, timestamps;
	uint64_t calls, tails, signals, syscalls;
	uint64_t roots;       /* frames that were open before the trace began */
	uint64_t unwound;     /* frames passed over */
	uint64_t unexplained; /* returns and jumps that fit nothing on the stack: depth may be wrong from here */
	uint64_t switches;    /* to another stack */
	uint64_t uncertain;   /* times that a depth was not known for certain */
	uint64_t gaps;
	uint64_t backwards;   /* timestamps before the one before */
	uint64_t first, last; /* ns */
	uint64_t bound;       /* the largest of any event that stands between two timestamps */
	uint32_t deepest;
};

struct calls;

/* regions is borrowed, and may serve many threads one after another. */
int calls_new(struct region_map *regions, const struct calls_sink *sink, struct calls **ret);

/* Timestamps are that coarse: each may be so much behind the time at which it was taken. 0 unless told. */
void calls_tick(struct calls *c, uint64_t ns);

/* Timestamps must already be CLOCK_MONOTONIC ns. Fits struct element_sink. */
int calls_element(void *calls, const struct element *e);

/*
 * The end of the thread's trace: closes what is open. end: when the ring was frozen or the thread ended, where known
 * (a thread that sleeps in a system call does so until then), else 0.
 */
int calls_end(struct calls *c, uint64_t end);

const struct calls_counts *calls_counts(const struct calls *c);
struct calls *calls_free(struct calls *c);

static inline void calls_freep(struct calls **c)
{
	calls_free(*c);
}

#endif
