/*
 * Gives events their times. Events wait until the next timestamp of another time; then they are spread over what lies
 * between it and the one before, by the cycles that the trace counts, else by instructions executed. Where something in
 * between takes time without executing (a system call, a gap), the instructions go at the pace seen elsewhere and the
 * rest is its.
 */
#ifndef CSIGHT_CALLS_SPREAD_H
#define CSIGHT_CALLS_SPREAD_H

#include "lib/calls/calls.h"

/* Without a timestamp for so many events, times are guessed. */
enum { SPREAD_MAX = 1 << 15 };

struct spread_item {
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

struct spread {
	struct calls_sink sink;
	struct calls_counts *counts;
	struct spread_item *items;
	size_t room;
	uint32_t n;
	uint32_t kept;      /* these are not taken back */
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
int spread_put(struct spread *s, uint64_t pos, enum call_event_type type, unsigned kind, const struct region *function,
	       const struct inlined *inlined);

/* So many cycles passed since this was last told; up to what is put next. */
void spread_cycles(struct spread *s, uint64_t n);

/* Time passes here, between what was put before and what comes. */
void spread_wait(struct spread *s);
int spread_timestamp(struct spread *s, uint64_t pos, uint64_t time);

/* end 0: not known. */
int spread_end(struct spread *s, uint64_t pos, uint64_t end);

/*
 * Where the last thing put is the entry of from, and it still waits: it becomes an entry of to. A stub that only jumps
 * on need not show.
 */
bool spread_rename(struct spread *s, const struct region *from, const struct region *to);

/* Before another item, at pos: there is room for it. */
int spread_prepare(struct spread *s, uint64_t pos);

/* The same of a move: left functions from from out, and entered ones that end in to. They must fit. */
static inline int spread_move(struct spread *s, uint64_t pos, const struct inlined *from, const struct inlined *to,
			      uint32_t left, uint32_t entered)
{
	int rc = s->counted || s->n == s->room ? spread_prepare(s, pos) : 0;

	if (rc < 0)
		return rc;
	s->items[s->n++] = (struct spread_item){ .pos = pos,
						 .from = from,
						 .inlined = to,
						 .waits = s->waits,
						 .type = CALL_EVENT_MOVE,
						 .left = (uint8_t)left,
						 .entered = (uint8_t)entered };
	s->events += left + entered;
	return 0;
}

static inline bool spread_fits(const struct spread *s, uint32_t left, uint32_t entered)
{
	return left <= UINT8_MAX && entered <= UINT8_MAX && s->events + left + entered <= SPREAD_MAX;
}

/* Whether anything may be taken back. */
static inline bool spread_ends_in_leave(const struct spread *s)
{
	const struct spread_item *item = &s->items[s->n - 1];

	return s->n > s->kept && (item->type == CALL_EVENT_MOVE ? !item->entered : item->type == CALL_EVENT_LEAVE);
}

/* Where the last thing put is that this was left by a return, and it still waits, since spread_keep(): it was not left.
 */
bool spread_take_back(struct spread *s, const struct inlined *left);

static inline void spread_keep(struct spread *s)
{
	s->kept = s->n;
}

void spread_done(struct spread *s);

#endif
