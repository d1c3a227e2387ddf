/* SPDX-License-Identifier: MIT */
/*
 * Assigns times to events. Events are pending until the next timestamp of a different time. Then they are spread over
 * the interval between the two timestamps by cycle counts of the trace, else by instructions executed. Where time
 * passes in the interval without execution (a system call, a gap), instructions run at the pace observed elsewhere, and
 * the remaining time is divided evenly among those waits.
 */
#ifndef CSIGHT_CALLS_EVENT_TIMES_H
#define CSIGHT_CALLS_EVENT_TIMES_H

#include "lib/calls/calls.h"

/* Pending events at most; without a timestamp by then, their times are guessed from the pace. */
enum { EVENT_TIMES_MAX = 1 << 15 };

/* Control leaves `left` functions from `from` outwards, and then enters `entered` functions, the innermost being `to`.
 */
struct inlined_change {
	const struct inlined *from, *to;
	uint8_t left, entered;
	uint8_t kind; /* of those entered: CALL_INLINED or CALL_RESUMED */
};

struct pending_event {
	uint64_t pos, cycles; /* since the interval began */
	union {
		const struct region *function;
		const struct inlined *from; /* of a move */
	};
	const struct inlined *inlined;
	uint32_t waits; /* waits before it in the interval */
	uint8_t type, kind;
	uint8_t left, entered; /* of a move */
};

/* Where the thread may have paused. */
struct pause_place {
	uint64_t pos;
	uint32_t n, waits; /* items and waits before it in the interval */
};

struct event_times {
	struct calls_sink sink;
	struct calls_counts *counts;
	struct pending_event *items;
	size_t capacity;
	uint32_t n;
	uint32_t committed;  /* the first items, which no longer can be cancelled */
	uint32_t events;     /* number of events, with moves counted as their leaves and enters */
	uint32_t waits;      /* number of places since the last timestamp where time passes without execution */
	uint64_t time, pos;  /* at the interval's start */
	uint64_t stamp;      /* the last timestamp; lower than time where an interval had to be guessed */
	uint64_t pace;       /* ns per instruction, times 1024; 0: unknown */
	uint64_t last;       /* time of the last event */
	uint64_t resolution; /* resolution of timestamps, ns */
	/* Cycle counts of the interval: assigned to items, and counted since the last item. */
	uint64_t cycles, counted;
	uint64_t cycles_pos;       /* instructions at the end of those assigned */
	uint64_t cycles_from;      /* instructions at the last cycle count, perhaps before the interval */
	uint64_t cycle_pace;       /* ns per cycle, times 1024; 0: unknown */
	uint32_t n_counted;        /* number of items with cycles assigned */
	bool uncounted;            /* a wait came since, so the cycles counted since are unusable */
	calls_pause_fn find_pause; /* or NULL */
	void *pause_user;
	struct pause_place *places; /* of the interval */
	size_t n_places, cap_places;
	uint64_t paused_until; /* latest end of a pause so far, in whole */
	bool has_switches;     /* the trace contains the kernel: places are where that switches to another thread */
	bool exact;            /* an instruction takes 1 ns */
	bool started;          /* a time is known */
	bool guessed;          /* times were guessed since the last timestamp */
};

/* Adds n cycles, counted since the last call. They end at the next event added. */
void event_times_add_cycles(struct event_times *s, uint64_t n);

/* Adds a wait: time passes between the events before and after it. */
void event_times_add_wait(struct event_times *s);

/* The wait that was added last is none; no event followed. */
void event_times_drop_wait(struct event_times *s);

/* Notes that the thread may have paused here. */
int event_times_add_place(struct event_times *s, uint64_t pos);

/* The kernel is traced, up to where it switches to another thread: a pause is nowhere else. */
void event_times_set_switches(struct event_times *s);
int event_times_add_timestamp(struct event_times *s, uint64_t pos, uint64_t time);

/* Emits all pending events; end 0: unknown. */
int event_times_end(struct event_times *s, uint64_t pos, uint64_t end);

/*
 * If the last item is a pending enter of from, makes it an enter of to and returns true: hides stubs that only jump on.
 */
bool event_times_retarget(struct event_times *s, const struct region *from, const struct region *to);

/* Makes room for another item at pos: counts the cycles before it, and emits pending events if there are too many. */
int event_times_prepare(struct event_times *s, uint64_t pos);

/* Adds a pending event; pos: instructions executed so far. */
static inline int event_times_add(struct event_times *s, uint64_t pos, enum call_event_type type, unsigned kind,
				  const struct region *function, const struct inlined *inlined)
{
	bool full = s->n == s->capacity || s->events == EVENT_TIMES_MAX;
	int rc = s->counted || full ? event_times_prepare(s, pos) : 0;

	if (rc < 0)
		return rc;
	s->items[s->n++] = (struct pending_event){ .pos = pos,
						   .function = function,
						   .inlined = inlined,
						   .waits = s->waits,
						   .type = (uint8_t)type,
						   .kind = (uint8_t)kind };
	s->events++;
	return 0;
}

/* Adds a move. event_times_fit() must have returned true. */
static inline int event_times_add_move(struct event_times *s, uint64_t pos, const struct inlined_change *m)
{
	int rc = s->counted || s->n == s->capacity ? event_times_prepare(s, pos) : 0;

	if (rc < 0)
		return rc;
	s->items[s->n++] = (struct pending_event){ .pos = pos,
						   .from = m->from,
						   .inlined = m->to,
						   .waits = s->waits,
						   .type = CALL_EVENT_MOVE,
						   .kind = m->kind,
						   .left = m->left,
						   .entered = m->entered };
	s->events += (uint32_t)m->left + m->entered;
	return 0;
}

static inline bool event_times_fit(const struct event_times *s, uint32_t left, uint32_t entered)
{
	return left <= UINT8_MAX && entered <= UINT8_MAX && s->events + left + entered <= EVENT_TIMES_MAX;
}

/* Returns true if event_times_cancel_leave() may succeed. */
static inline bool event_times_end_in_leave(const struct event_times *s)
{
	const struct pending_event *item = &s->items[s->n - 1];

	return s->n > s->committed && (item->type == CALL_EVENT_MOVE ? !item->entered : item->type == CALL_EVENT_LEAVE);
}

/* If the last item is a move that ends with a call, at the same place, of the function around `to`: adds `to` to it. */
bool event_times_extend_call(struct event_times *s, uint64_t pos, const struct inlined *to);

/*
 * If the function `to` was resumed last, and perhaps left since, with no other item after that, none of them committed:
 * makes this the begin of its call, and returns true. The compiler moved instructions to before the entry.
 */
bool event_times_begin_call(struct event_times *s, const struct inlined *to);

/* If the last item is a pending return from left that is not committed, removes it and returns true. */
bool event_times_cancel_leave(struct event_times *s, const struct inlined *left);

static inline void event_times_commit(struct event_times *s)
{
	s->committed = s->n;
}

void event_times_done(struct event_times *s);

#endif
