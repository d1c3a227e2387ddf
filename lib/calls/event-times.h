/*
 * Gives events their times. Events wait until the next timestamp of another time; then they are spread over what lies
 * between it and the one before, by the cycles that the trace counts, else by instructions executed. Where something in
 * between takes time without executing (a system call, a gap), the instructions go at the pace seen elsewhere and the
 * rest is its.
 */
#ifndef CSIGHT_CALLS_EVENT_TIMES_H
#define CSIGHT_CALLS_EVENT_TIMES_H

#include "lib/calls/calls.h"

/* Without a timestamp for so many events, times are guessed. */
enum { EVENT_TIMES_MAX = 1 << 15 };

struct pending_event {
	uint64_t pos, cycles; /* of the stretch, before it */
	union {
		const struct region *function;
		const struct inlined *from; /* of a move */
	};
	const struct inlined *inlined;
	uint32_t waits; /* before it, in its stretch */
	uint8_t type, kind;
	uint8_t left, entered; /* of a move */
};

struct event_times {
	struct calls_sink sink;
	struct calls_counts *counts;
	struct pending_event *items;
	size_t capacity;
	uint32_t n;
	uint32_t committed; /* these are not taken back */
	uint32_t events;    /* that come of them */
	uint32_t waits;     /* places since the last timestamp where time passes without instructions */
	uint64_t time, pos; /* where the present stretch begins */
	uint64_t stamp;     /* the last timestamp; time is later where a stretch had to be guessed */
	uint64_t pace;      /* ns an instruction, times 1024; 0: not known yet */
	uint64_t last;      /* of the last event */
	uint64_t tick;      /* timestamps are that coarse, ns */
	/* Cycles of the present stretch: those counted up to the last event but those of it that wait. */
	uint64_t cycles, counted;
	uint64_t cycles_pos;  /* where the former end */
	uint64_t cycles_from; /* where the trace last counted up to; before the stretch, perhaps */
	uint64_t cycle_pace;  /* ns a cycle, times 1024; 0: not known yet */
	uint32_t n_counted;   /* events whose cycles are known */
	bool uncounted; /* something without instructions came since, during which nobody knows what was counted */
	bool started;   /* time is known */
	bool guessed;   /* since the last timestamp */
};

/* pos: instructions executed so far. */
int event_times_add(struct event_times *s, uint64_t pos, enum call_event_type type, unsigned kind,
		    const struct region *function, const struct inlined *inlined);

/* So many cycles passed since this was last told; up to what is put next. */
void event_times_add_cycles(struct event_times *s, uint64_t n);

/* Time passes here, between what was put before and what comes. */
void event_times_add_wait(struct event_times *s);
int event_times_timestamp(struct event_times *s, uint64_t pos, uint64_t time);

/* end 0: not known. */
int event_times_end(struct event_times *s, uint64_t pos, uint64_t end);

/*
 * Where the last thing put is the entry of from, and it still waits: it becomes an entry of to. A stub that only jumps
 * on need not show.
 */
bool event_times_retarget(struct event_times *s, const struct region *from, const struct region *to);

/* Before another item, at pos: there is room for it. */
int event_times_prepare(struct event_times *s, uint64_t pos);

/* The same of a move: left functions from from out, and entered ones that end in to. They must fit. */
static inline int event_times_add_move(struct event_times *s, uint64_t pos, const struct inlined *from,
				       const struct inlined *to, uint32_t left, uint32_t entered)
{
	int rc = s->counted || s->n == s->capacity ? event_times_prepare(s, pos) : 0;

	if (rc < 0)
		return rc;
	s->items[s->n++] = (struct pending_event){ .pos = pos,
						   .from = from,
						   .inlined = to,
						   .waits = s->waits,
						   .type = CALL_EVENT_MOVE,
						   .left = (uint8_t)left,
						   .entered = (uint8_t)entered };
	s->events += left + entered;
	return 0;
}

static inline bool event_times_fit(const struct event_times *s, uint32_t left, uint32_t entered)
{
	return left <= UINT8_MAX && entered <= UINT8_MAX && s->events + left + entered <= EVENT_TIMES_MAX;
}

/* Whether anything may be taken back. */
static inline bool event_times_end_in_leave(const struct event_times *s)
{
	const struct pending_event *item = &s->items[s->n - 1];

	return s->n > s->committed && (item->type == CALL_EVENT_MOVE ? !item->entered : item->type == CALL_EVENT_LEAVE);
}

/* Where the last thing put is that this was left by a return, and it still waits, since event_times_commit(): it was
 * not left.
 */
bool event_times_cancel_leave(struct event_times *s, const struct inlined *left);

static inline void event_times_commit(struct event_times *s)
{
	s->committed = s->n;
}

void event_times_done(struct event_times *s);

#endif
