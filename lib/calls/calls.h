/* SPDX-License-Identifier: MIT */
/*
 * Builds the call stacks of one thread from elements: which functions were entered and left, and when. One struct calls
 * serves one thread and consumes its elements in stream order. It passes events to its sink in order of time; each
 * leave matches the innermost open enter. It never aborts: returns and jumps that fit no frame are counted and marked.
 *
 * Time. Timestamps stand between ranges. Events between two timestamps are spread over the interval by the cycle counts
 * of the trace, else by instructions executed; what remains is attributed to system calls and gaps. So events are
 * emitted when a later timestamp arrives; calls_end() emits the rest. Times never decrease, and events of equal time
 * keep their order.
 *
 * Ranges may arrive one by one, or several merged into one (struct element). Therefore a range must change nothing
 * where it continues within a region, follows another range with nothing but cycle counts between, and was not reached
 * by a call or a return; and the region of an address may change only at timestamps.
 *
 * Inlined functions are entered and left as execution enters and leaves their instructions. A call of one begins where
 * its entry is executed; it is entered as CALL_INLINED. Compilers scatter the instructions of an inlined function among
 * those around it. So where control comes to other instructions of it, it is entered as CALL_RESUMED, which begins no
 * call; and where control moves to higher addresses, leaves inlined functions and comes back into the same ones with no
 * other enter or leave between, that leave is cancelled. A timestamp in between commits it.
 *
 * A segment is a stretch of trace without a gap. Frames that were open at its start become visible only when something
 * returns into them: each is one CALL_EVENT_ROOT, the outermost last. A reader that wants the whole stack from the
 * start of the segment on puts them below all other frames of the segment, as the store does.
 *
 * A function that leaves by a tail call stays open: the function that it jumps to is nested in it, as CALL_TAIL, and
 * all functions of such a chain are left together when the last one returns. A chain that repeats a function, or is
 * long, is folded: its first function stays open, and later tail calls replace one another in it, as CALL_FOLDED.
 *
 * A thread that switches to another stack leaves all frames and begins a segment without a gap before it. Frames of a
 * stack that it comes back to are entered again, as CALL_RESUMED.
 */
#ifndef CSIGHT_CALLS_H
#define CSIGHT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/code/region-map.h"
#include "lib/etm/element.h"

enum call_event_type {
	CALL_EVENT_SEGMENT, /* tracing begins here; the stack is empty: enum segment_kind */
	CALL_EVENT_ENTER,
	CALL_EVENT_LEAVE,
	CALL_EVENT_ROOT, /* the stack was empty: a frame open since the segment's start is now the only one */
	CALL_EVENT_GAP,  /* the segment ended; every frame has been left */
	CALL_EVENT_MARK, /* the certainty of the depth changed: enum mark_kind */
	/* inlined functions return and others are entered, at once: struct calls_sink */
	CALL_EVENT_MOVE,
};

/* The stack on which a segment begins: another one, or one that the thread has left before. */
enum segment_kind { SEGMENT_NEW, SEGMENT_AGAIN };

/* How a frame was entered. */
enum call_kind {
	CALL_PLAIN,
	CALL_TAIL,   /* by a jump from the frame below, which stays open */
	CALL_SIGNAL, /* a signal handler, or what it returns to, on top of what it interrupted */
	CALL_KERNEL, /* an exception handler of the kernel */
	/* not a function: the time between a system call and its return, or a time in which the thread did not run */
	CALL_SYSCALL,
	CALL_INFERRED, /* open since before the segment began */
	CALL_ODD,      /* entered in a way that no call explains */
	/* entered before: the thread came back to the stack that holds it, or control to an inlined function */
	CALL_RESUMED,
	CALL_INLINED,      /* code of another function that the compiler put here */
	CALL_FOLDED,       /* as CALL_TAIL; frames of the chain between it and the one below have been left */
	CALL_RESUMED_TAIL, /* as CALL_RESUMED; it had been entered as CALL_TAIL or CALL_FOLDED */
};

/* Returns true if the frame below has jumped to this one. */
static inline bool calls_kind_is_tail(enum call_kind kind)
{
	return kind == CALL_TAIL || kind == CALL_FOLDED || kind == CALL_RESUMED_TAIL;
}

/* Returns true if the frame continues one that was entered and left before. */
static inline bool calls_kind_is_resumed(enum call_kind kind)
{
	return kind == CALL_RESUMED || kind == CALL_RESUMED_TAIL;
}

/* How a frame ended. */
enum leave_kind {
	LEAVE_RETURN,
	LEAVE_TAIL,    /* another frame replaced it, and is not nested in it */
	LEAVE_UNWOUND, /* skipped by longjmp, by a thrown exception, or by a handler that never returned */
	LEAVE_GAP,
	LEAVE_END,    /* still open at the end of the trace, or when exec replaced the program */
	LEAVE_SWITCH, /* the thread switched to another stack: a fibre, a goroutine */
	LEAVE_FOLDED, /* by a tail call; its chain repeats a function or is too long to be kept */
	LEAVE_BACK,   /* by a jump back into the frame below, which had left by a tail call */
};

enum gap_kind {
	GAP_NO_SYNC,     /* the stream was cut or malformed */
	GAP_OVERFLOW,    /* the trace unit lost bytes */
	GAP_NO_IMAGE,    /* the code is unavailable */
	GAP_BAD_IMAGE,   /* the code is not what ran, or the trace is garbled */
	GAP_PAUSED,      /* tracing was off: a freeze, a filter */
	GAP_DEPTH,       /* more open functions than DEPTH_MAX */
	GAP_TRUNCATED,   /* the sink was full, unavailable, or failed */
	GAP_LOST,        /* records that locate the trace were lost */
	GAP_OVERWRITTEN, /* the ring wrapped before the trace was copied */
	GAP_UNTRACED,    /* the thread ran on a CPU that is not traced */
};

enum mark_kind {
	/* one of several frames of a recursion, or of several stacks, was chosen; it may be another */
	MARK_UNCERTAIN,
	MARK_CERTAIN, /* the depth is certain again */
	/*
	 * from the beginning of the segment up to here the depth was uncertain: frames older than the segment, which
	 * have just been left together with the outermost one, are unknown. The certainty since then is unaffected.
	 */
	MARK_WAS_UNCERTAIN,
	/* an event of the trace unit, by its number: what it was set to trace */
	MARK_EVENT_0,
	MARK_EVENT_1,
	MARK_EVENT_2,
	MARK_EVENT_3,
	MARK_TRIGGER, /* of an ETMv3 or PTM */
	MARK_KINDS
};

const char *calls_kind_str(enum call_kind kind);
const char *calls_leave_str(enum leave_kind kind);
const char *calls_gap_str(enum gap_kind kind);
const char *calls_mark_str(enum mark_kind kind);

struct call_event {
	enum call_event_type type;
	/* enum call_kind, leave_kind, gap_kind or mark_kind, by type; move: CALL_INLINED or CALL_RESUMED, of those
	 * entered */
	uint8_t kind;
	uint64_t time;                 /* ns */
	uint64_t instructions;         /* executed by this thread before this event */
	uint64_t bound;                /* largest error of time, ns; UINT64_MAX: unknown */
	const struct region *function; /* enter, root */
	/* enter, root: the inlined instance, or NULL if the function is not inlined; move: the innermost one entered */
	const struct inlined *inlined;
	uint8_t left;    /* move: number of functions left, innermost first */
	uint8_t entered; /* move: number of functions then entered, outermost first */
};

/* A negative return stops the decode; calls_element() and calls_end() return it. */
struct calls_sink {
	int (*event)(void *user, const struct call_event *e);
	void *user;
	bool moves; /* event() accepts CALL_EVENT_MOVE; otherwise a move is passed as single leaves and enters */
};

struct calls_counts {
	uint64_t instructions, ranges, timestamps;
	uint64_t calls, tails, signals, syscalls;
	uint64_t roots;       /* frames open since before the trace began */
	uint64_t unwound;     /* frames left as LEAVE_UNWOUND */
	uint64_t unexplained; /* returns and jumps that fit no frame; the depth is uncertain after them */
	uint64_t switches;    /* of stacks */
	uint64_t uncertain;   /* number of times that the depth became uncertain */
	uint64_t gaps;
	uint64_t backwards;   /* timestamps lower than the one before */
	uint64_t first, last; /* ns */
	uint64_t bound;       /* largest error of the time of an event between two timestamps, ns */
	uint32_t deepest;
};

struct calls;

/* Borrows regions, which may serve other threads one after another. */
int calls_new(struct region_map *regions, const struct calls_sink *sink, struct calls **ret);

/* Sets the resolution of timestamps: each may be up to ns lower than the time at which it was taken. Default 0. */
void calls_set_resolution(struct calls *c, uint64_t ns);

/*
 * The trace is of the emulated trace unit, which writes after each system call: its number, as three events with digits
 * of base 15, the highest first; a timestamp of its beginning; timestamps of when it had run in the kernel, of when it
 * was no longer blocked, and of its end, when it had got a CPU. exact: the clock is the virtual one: an instruction
 * takes 1 ns, and of the latter timestamps there is only that of the end, since a system call is blocked all its time.
 */
void calls_set_emulated(struct calls *c, bool exact);

/*
 * Sets whether address filters leave a part of the program out of the trace: then what a branch leads to was not
 * necessarily traced, even if an exception at its target was. Without this, they are assumed once tracing stops and
 * starts without an exception.
 */
void calls_set_filtered(struct calls *c, bool filtered);

/* An interval in which the thread did not run. */
struct calls_pause {
	uint64_t from, to;
	bool preempted; /* it could have run */
};

/* Finds the first pause that overlaps an interval of time; false: none is known. */
typedef bool (*calls_pause_fn)(void *user, uint64_t from, uint64_t to, struct calls_pause *ret);

/*
 * Sets where pauses of the thread come from. They are emitted in the system calls and exceptions of the trace: where
 * there are more of these between two timestamps than pauses, in the last ones.
 */
void calls_set_pauses(struct calls *c, calls_pause_fn find, void *user);

/* Returns the number of the system call that the instruction at address makes, or -1 where it is unknown. */
typedef int64_t (*calls_syscall_fn)(void *user, uint64_t address);

/* Sets where the names of system calls come from. Without this they have none. */
void calls_set_syscalls(struct calls *c, calls_syscall_fn find, void *user);

/* Consumes one element. Timestamps must already be ns. The signature fits struct element_sink. */
int calls_element(void *calls, const struct element *e);

struct native_batch;
struct native_runs;

/*
 * Consumes a batch of NATIVE_CALLS, without an element for each call. All but the runs goes to the sink of r, which
 * passes on to calls_element() what it does not keep.
 */
int calls_batch(struct calls *c, struct native_runs *r, const struct native_batch *b);

/*
 * Ends the thread's trace: leaves all open frames and emits all pending events. end: when the ring was frozen or the
 * thread ended, 0 where unknown; a thread that sleeps in a system call does so until then.
 */
int calls_end(struct calls *c, uint64_t end);

/*
 * Finds where control is in each open frame, innermost first: the address of the next instruction, or in callers of the
 * call. Frames whose address is unknown are left out. Returns the number of addresses, at most n. *ret_syscall: the
 * thread is in a system call, whose instruction has the first address.
 */
size_t calls_addresses(const struct calls *c, uint64_t *ret, size_t n, bool *ret_syscall);

const struct calls_counts *calls_counts(const struct calls *c);
struct calls *calls_free(struct calls *c);

static inline void calls_freep(struct calls **c)
{
	calls_free(*c);
}

#endif
