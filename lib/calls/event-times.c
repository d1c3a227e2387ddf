/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/calls/calls-private.h"

enum {
	PACE_ONE = 1024,
	PACE_GUESS = PACE_ONE, /* one instruction per ns, while the pace is unknown */
	PACE_MAX = 1000 * PACE_ONE,
	PLACES_MAX = 4096, /* of one interval */
	PAUSES_MAX = 64,   /* of one interval */
	PACE_SAMPLE = 64,  /* instructions or cycles that an interval needs to be a sample */
};

static uint64_t scale_u64(uint64_t value, uint64_t part, uint64_t whole)
{
	/* Most values are small, and 128-bit division takes several times as long. */
	if (whole && (value | part) <= UINT32_MAX)
		return value * part / whole;
	return whole ? (uint64_t)((unsigned __int128)value * part / whole) : 0;
}

/* value * part / whole for many parts up to whole, without dividing where the products fit 64 bits. */
struct share {
	uint64_t value, whole;
	uint64_t inverse; /* 2^64 / whole, rounded up, which is exact for products below that; 0: must divide */
};

static struct share share_make(uint64_t value, uint64_t whole)
{
	struct share s = { value, whole, 0 };
	uint64_t n;

	if (whole > 1 && !__builtin_mul_overflow(value, whole, &n) && !__builtin_mul_overflow(n, whole, &n))
		s.inverse = UINT64_MAX / whole + 1;
	return s;
}

static inline uint64_t share_apply(const struct share *s, uint64_t part)
{
	return s->inverse ? (uint64_t)((unsigned __int128)(s->value * part) * s->inverse >> 64)
			  : scale_u64(s->value, part, s->whole);
}

/* Returns how long n instructions or cycles take at a pace. */
static uint64_t time_at(uint64_t pace, uint64_t n)
{
	unsigned __int128 t = (unsigned __int128)n * (pace ? pace : PACE_GUESS) / PACE_ONE;

	return t > INT64_MAX ? INT64_MAX : (uint64_t)t;
}

static uint64_t run_time(const struct event_times *s, uint64_t instructions)
{
	return time_at(s->pace, instructions);
}

/* Distributes n cycles counted up to pos over the items added since the last count, by instructions. */
static void assign_cycles(struct event_times *s, uint64_t pos, uint64_t n)
{
	for (; s->n_counted < s->n; s->n_counted++)
		s->items[s->n_counted].cycles =
		    s->cycles + scale_u64(n, s->items[s->n_counted].pos - s->cycles_pos, pos - s->cycles_pos);
	s->cycles = add_saturating(s->cycles, n);
	s->cycles_pos = pos;
	s->counted = 0;
	s->uncounted = false;
}

/*
 * Estimates the cycles since the last count, by the ratio of cycles to instructions in the interval, else by the paces;
 * one cycle per instruction where both are unknown.
 */
static uint64_t guess_cycles(const struct event_times *s, uint64_t pos)
{
	uint64_t before = s->cycles_pos - s->pos, instructions = pos - s->cycles_pos;

	if (before && s->cycles)
		return scale_u64(s->cycles, instructions, before);
	return s->pace && s->cycle_pace ? scale_u64(instructions, s->pace, s->cycle_pace) : instructions;
}

static void count_cycles(struct event_times *s, uint64_t pos)
{
	uint64_t n = s->uncounted ? guess_cycles(s, pos) : s->counted;

	/* A count that began before the interval belongs to it only in part. */
	if (!s->uncounted && s->cycles_from < s->cycles_pos)
		n = scale_u64(n, pos - s->cycles_pos, pos - s->cycles_from);
	assign_cycles(s, pos, n);
	s->cycles_from = pos;
}

/* Completes the cycles of the interval that ends at pos. Returns true if they can be used to spread events. */
static bool end_cycles(struct event_times *s, uint64_t pos)
{
	if (s->counted)
		count_cycles(s, pos);
	else if (s->cycles)
		assign_cycles(s, pos, guess_cycles(s, pos));
	return s->cycles != 0;
}

/* Emits a move as single leaves and enters. */
static int emit_move_singly(struct event_times *s, const struct pending_event *item, struct call_event *e)
{
	const struct inlined *entered[UINT8_MAX], *at = item->from;
	int rc = 0;

	e->type = CALL_EVENT_LEAVE;
	e->kind = LEAVE_RETURN;
	for (unsigned i = 0; rc == 0 && i < item->left; i++, at = at->parent) {
		e->function = at->function;
		e->inlined = at;
		rc = s->sink.event(s->sink.user, e);
	}
	at = item->inlined;
	for (unsigned i = item->entered; i-- > 0; at = at->parent)
		entered[i] = at;
	e->type = CALL_EVENT_ENTER;
	e->kind = item->kind;
	for (unsigned i = 0; rc == 0 && i < item->entered; i++) {
		e->function = entered[i]->function;
		e->inlined = entered[i];
		rc = s->sink.event(s->sink.user, e);
	}
	return rc;
}

/* Emits one item. e holds what all events of the interval share. */
static inline int emit_event(struct event_times *s, const struct pending_event *item, struct call_event *e,
			     uint64_t time)
{
	e->type = item->type;
	e->kind = item->kind;
	e->time = MAX(time, s->last);
	e->instructions = item->pos;
	e->inlined = item->inlined;
	e->function = item->type == CALL_EVENT_MOVE ? NULL : item->function;
	e->left = item->left;
	e->entered = item->entered;
	if (!s->last)
		s->counts->first = e->time;
	s->last = e->time;
	if (item->type == CALL_EVENT_MOVE && !s->sink.moves)
		return emit_move_singly(s, item, e);
	return s->sink.event(s->sink.user, e);
}

static bool is_stub(const struct pending_event *item)
{
	return item->type == CALL_EVENT_ENTER && item->function && item->function->kind == REGION_PLT;
}

/*
 * Emits the pending events in the interval from s->time to end, and begins the next interval there. bound: the largest
 * error of their times. hold: a last event that enters a stub remains pending, so that event_times_retarget() can name
 * its function; its position is before the next interval, and its time the beginning of the next interval.
 */
static int emit_items(struct event_times *s, uint64_t pos, uint64_t end, uint64_t bound, bool hold)
{
	uint64_t begin = s->time, length, instructions = pos - s->pos, run, time = begin;
	bool by_cycles = end_cycles(s, pos);
	uint32_t held = hold && s->n && is_stub(&s->items[s->n - 1]), n = s->n - held;
	struct call_event e = { .bound = bound };
	struct share ran, waited;
	int rc = 0;

	end = MAX(end, begin);
	length = end - begin;
	run = by_cycles ? time_at(s->cycle_pace, s->cycles) : run_time(s, instructions);
	run = s->waits ? MIN(length, run) : length;
	ran = by_cycles ? share_make(run, s->cycles) : share_make(run, instructions);
	waited = share_make(length - run, s->waits);
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		const struct pending_event *item = &s->items[i];

		/* Consecutive events often have equal positions. */
		if (!i || item->pos != item[-1].pos || item->waits != item[-1].waits || item->cycles != item[-1].cycles)
			time = begin + share_apply(&ran, by_cycles ? item->cycles : MAX(item->pos, s->pos) - s->pos) +
			       share_apply(&waited, item->waits);
		rc = emit_event(s, item, &e, time);
	}
	if (n) {
		s->counts->last = s->last;
		if (bound != UINT64_MAX && bound > s->counts->bound)
			s->counts->bound = bound;
	}
	if (held) {
		s->items[0] = s->items[n];
		s->items[0].cycles = s->items[0].waits = 0;
	}
	s->n = s->n_counted = s->committed = s->events = held;
	s->waits = 0;
	s->time = end;
	s->pos = s->cycles_pos = pos;
	s->cycles = 0;
	s->started = true;
	return rc;
}

/* Emits the pending events up to end, but for a last one that enters a stub. */
static int emit_pending(struct event_times *s, uint64_t pos, uint64_t end, uint64_t bound)
{
	return emit_items(s, pos, end, bound, true);
}

/*
 * Emits what precedes a pause, and the pause, and begins the interval again at its end. A pause within a stub whose
 * function is not known yet is moved ahead of it: the stub remains pending.
 */
static int emit_pause(struct event_times *s, struct pause_place *p, const struct calls_pause *pause, uint64_t bound)
{
	struct pending_event own = { .type = CALL_EVENT_ENTER, .kind = CALL_SYSCALL };
	uint32_t n, rest, waits = s->waits, committed = s->committed;
	struct call_event e = { .bound = bound };
	int rc;

	p->n = MIN(p->n, s->n);
	if (p->n && p->n == s->n && is_stub(&s->items[p->n - 1])) {
		p->n--;
		p->pos = s->items[p->n].pos;
		p->waits = s->items[p->n].waits;
	}
	n = p->n;
	rest = s->n - n;
	own.pos = p->pos;
	s->n = n;
	s->waits = p->waits;
	/* The position of a stub that remained pending is before the interval. */
	rc = emit_items(s, MAX(p->pos, s->pos), pause->from, bound, false);
	own.function = pause->preempted ? &calls_preempted : &calls_waiting;
	if (rc == 0)
		rc = emit_event(s, &own, &e, pause->from);
	own.type = CALL_EVENT_LEAVE;
	own.kind = LEAVE_RETURN;
	if (rc == 0)
		rc = emit_event(s, &own, &e, pause->to);
	s->time = MAX(s->time, pause->to);
	memmove(s->items, s->items + n, rest * sizeof(*s->items));
	s->n = rest;
	s->waits = waits - p->waits;
	s->committed = committed - MIN(committed, n);
	for (uint32_t i = 0; i < rest; i++) {
		s->items[i].waits -= p->waits;
		s->events += s->items[i].type == CALL_EVENT_MOVE ? s->items[i].left + s->items[i].entered : 1;
	}
	return rc;
}

/* The pauses of an interval. */
struct pauses {
	struct calls_pause list[PAUSES_MAX];
	size_t n;
	bool begun; /* the first one is the rest of one that began before the interval */
	bool ahead; /* one more begins at its end */
};

/*
 * Finds the pauses of the interval that ends at `until`, cut to it. last: nothing follows. The kernel records a switch
 * before the trace stops, and the end of a pause after it starts again. A time nearer to the record of the switch was
 * taken before the stop: the pause is to come. What is left of a pause behind its place is none.
 */
static void find_pauses(struct event_times *s, uint64_t until, bool last, struct pauses *ret)
{
	uint64_t from = s->time, ends = s->paused_until;

	ret->n = 0;
	ret->begun = ret->ahead = false;
	while (ret->n < PAUSES_MAX && from < until && s->find_pause(s->pause_user, from, until, &ret->list[ret->n])) {
		struct calls_pause *p = &ret->list[ret->n];

		ret->begun |= !ret->n && p->from < s->stamp;
		p->from = MAX(p->from, from);
		ret->ahead = s->has_switches && !last && p->to > until && p->to - until > until - p->from;
		if (ret->ahead)
			break;
		ret->n += !s->has_switches || p->to > ends;
		ends = MAX(ends, p->to);
		p->to = MIN(p->to, until);
		from = p->to;
	}
	s->paused_until = ends;
}

/* Returns true if the thread is still in the last place. */
static bool stays_in_place(const struct event_times *s, uint64_t pos)
{
	const struct pause_place *last = s->n_places ? &s->places[s->n_places - 1] : NULL;

	return last && last->pos == pos && last->n >= s->n;
}

/* Returns the index of the first or last gap among the items; s->n: there is none. */
static size_t find_gap(const struct event_times *s, bool last)
{
	size_t found = s->n;

	for (size_t i = 0; i < s->n && (last || found == s->n); i++)
		if (s->items[i].type == CALL_EVENT_GAP)
			found = i;
	return found;
}

/* Returns true if nothing was executed between a place and the gap that follows. */
static bool leads_to_gap(const struct event_times *s, const struct pause_place *p, size_t gap)
{
	for (size_t i = p->n; i < gap; i++)
		if (s->items[i].type != CALL_EVENT_LEAVE || s->items[i].kind != LEAVE_GAP)
			return false;
	return p->n <= gap && s->items[gap].pos == p->pos;
}

/* The places that the pauses of an interval may have. */
struct places_for_pauses {
	size_t first, end; /* of which the last ones are taken */
	size_t before_gap; /* that of the first pause; s->n_places: none */
	size_t leading;    /* places that the first pauses have, one each */
	bool excess;       /* more pauses than places are in the first one */
};

/*
 * Finds where pauses can be. In a gap the thread may have paused any number of times: of the places before it, only the
 * one in which the trace was lost has one; but each has one where the kernel switches. pos: the end of the interval.
 */
static struct places_for_pauses find_places(const struct event_times *s, const struct pauses *pauses, uint64_t pos)
{
	struct places_for_pauses p = { .end = s->n_places, .before_gap = s->n_places, .excess = true };
	size_t first_gap, last_gap = find_gap(s, true), before = 0;

	if (pauses->ahead && stays_in_place(s, pos))
		p.end--;
	if (last_gap == s->n)
		return p;
	p.excess = false;
	first_gap = find_gap(s, false);
	while (before < p.end && s->places[before].n <= first_gap)
		before++;
	for (p.first = before; p.first < p.end && s->places[p.first].n <= last_gap;)
		p.first++;
	if (s->has_switches)
		p.leading = before;
	else if (before && leads_to_gap(s, &s->places[before - 1], first_gap))
		p.before_gap = before - 1;
	return p;
}

/* Returns the index of the place of a pause; SIZE_MAX: it has none. */
static size_t place_of_pause(const struct event_times *s, const struct pauses *pauses,
			     const struct places_for_pauses *p, size_t pause)
{
	size_t places = p->end - p->first, left = pauses->n - pause;

	if (!pause && pauses->begun && !s->has_switches)
		return s->n_places && s->places[0].pos == s->pos && !s->places[0].n ? 0 : SIZE_MAX;
	if (!pause && p->before_gap < s->n_places)
		return p->before_gap;
	if (pause < p->leading)
		return pause;
	if (left <= places)
		return p->end - left;
	return p->excess && places ? p->first : SIZE_MAX;
}

/* Emits the pauses of the interval that ends at `until`, at pos, in their places. */
static int emit_pauses(struct event_times *s, uint64_t pos, uint64_t until, uint64_t bound, bool last)
{
	struct places_for_pauses places;
	struct pauses pauses;
	bool stays;
	int rc = 0;

	/* Cycle counts are not divided. */
	if (!s->find_pause || !s->n_places || s->cycles || s->counted)
		return 0;
	find_pauses(s, until, last, &pauses);
	if (!pauses.n)
		return 0;
	places = find_places(s, &pauses, pos);
	stays = places.end < s->n_places;
	for (size_t n = 0; rc == 0 && n < pauses.n; n++) {
		size_t i = place_of_pause(s, &pauses, &places, n);
		struct pause_place p;

		if (i == SIZE_MAX)
			continue;
		p = s->places[i];
		rc = emit_pause(s, &p, &pauses.list[n], bound);
		s->places[i].n = s->places[i].waits = 0;
		for (size_t k = i + 1; k < s->n_places; k++) {
			s->places[k].n -= MIN(p.n, s->places[k].n);
			s->places[k].waits -= p.waits;
		}
	}
	/* The kernel switches there once. */
	if (s->has_switches) {
		s->places[0] = s->places[s->n_places - 1];
		s->n_places = stays;
	}
	return rc;
}

/* Forgets the places of the interval that has ended, unless the thread is still in the last one. */
static void end_places(struct event_times *s, uint64_t pos)
{
	s->n_places = stays_in_place(s, pos);
	if (s->n_places)
		s->places[0] = (struct pause_place){ pos, 0, 0 };
}

int event_times_add_place(struct event_times *s, uint64_t pos)
{
	int rc;

	if (!s->find_pause)
		return 0;
	if (s->n_places == PLACES_MAX) {
		memmove(s->places, s->places + PLACES_MAX / 2, PLACES_MAX / 2 * sizeof(*s->places));
		s->n_places -= PLACES_MAX / 2;
	}
	rc = array_reserve(s->places, s->n_places, &s->cap_places);
	if (rc == 0)
		s->places[s->n_places++] = (struct pause_place){ pos, s->n, s->waits };
	return rc;
}

void event_times_set_switches(struct event_times *s)
{
	if (!s->has_switches)
		s->n_places = 0;
	s->has_switches = true;
}

/* Updates a running average of the pace by a sample: n instructions or cycles took length ns. */
static void learn_pace(uint64_t *pace, uint64_t n, uint64_t length)
{
	uint64_t sample;

	if (n < PACE_SAMPLE)
		return;
	sample = MIN(scale_u64(length, PACE_ONE, n), (uint64_t)PACE_MAX);
	sample = MAX(sample, (uint64_t)1);
	/* The thread may not have been running all the time, so a slow sample has limited weight. */
	*pace = *pace ? (7 * *pace + MIN(sample, 4 * *pace)) / 8 : sample;
	*pace = MAX(*pace, (uint64_t)1);
}

static int emit_pending_guessed(struct event_times *s, uint64_t pos)
{
	s->guessed = true;
	end_places(s, pos);
	return emit_pending(s, pos, add_saturating(s->time, run_time(s, pos - s->pos)),
			    s->exact && s->started ? 0 : UINT64_MAX);
}

int event_times_prepare(struct event_times *s, uint64_t pos)
{
	int rc = 0;

	if (s->counted)
		count_cycles(s, pos);
	if (s->events == EVENT_TIMES_MAX)
		rc = emit_pending_guessed(s, pos);
	return rc < 0 ? rc : array_reserve(s->items, s->n, &s->capacity);
}

void event_times_add_cycles(struct event_times *s, uint64_t n)
{
	/* By the virtual clock an instruction takes 1 ns, however many cycles it took. */
	if (!s->exact)
		s->counted = add_saturating(s->counted, n);
}

void event_times_add_wait(struct event_times *s)
{
	s->waits++;
	s->uncounted = true;
}

void event_times_drop_wait(struct event_times *s)
{
	s->waits -= s->waits > 0;
}

/* Returns the largest error of an event in the interval that ends at a timestamp. */
static uint64_t interval_bound(const struct event_times *s, uint64_t instructions, uint64_t time)
{
	uint64_t length = time - MIN(time, s->time);

	/* After a guess that was too late, events have the time at which the interval begins. */
	if (!s->exact)
		return s->stamp ? add_saturating(MAX(time, s->time) - s->stamp, s->resolution) : UINT64_MAX;
	/* What instructions do not explain is a single wait, or unexplained. */
	if (s->waits == 1 && length >= instructions)
		return 0;
	return length > instructions ? length - instructions : instructions - length;
}

int event_times_add_timestamp(struct event_times *s, uint64_t pos, uint64_t time)
{
	uint64_t instructions = pos - s->pos, run, bound;
	int rc;

	s->counts->timestamps++;
	if (s->stamp && time < s->stamp) {
		s->counts->backwards++;
		time = s->stamp;
	}
	/*
	 * The clock is coarser than the spacing of timestamps: events between equal ones wait for the next different
	 * one.
	 */
	if (s->started && time == s->stamp && !s->guessed)
		return 0;
	if (!s->started) {
		/* Events before the first timestamp are placed back from it by the pace. */
		run = run_time(s, instructions);
		s->time = time - MIN(run, time);
		bound = s->exact ? 0 : UINT64_MAX;
	} else {
		bound = interval_bound(s, instructions, time);
		if (!s->exact && !s->waits && !s->guessed && !s->n_places && s->time <= s->stamp) {
			learn_pace(&s->pace, instructions, time - MIN(time, s->time));
			if (end_cycles(s, pos))
				learn_pace(&s->cycle_pace, s->cycles, time - MIN(time, s->time));
		}
	}
	rc = s->started && s->stamp ? emit_pauses(s, pos, time, bound, false) : 0;
	end_places(s, pos);
	if (rc == 0)
		rc = emit_pending(s, pos, time, bound);
	s->stamp = time;
	s->guessed = false;
	return rc;
}

int event_times_end(struct event_times *s, uint64_t pos, uint64_t end)
{
	uint64_t run = run_time(s, pos - s->pos);

	if (end && !s->started)
		s->time = end - MIN(run, end);
	if (end && end >= s->time && s->started && s->stamp) {
		int rc = emit_pauses(s, pos, end, end - s->stamp, true);

		if (rc < 0)
			return rc;
		run = run_time(s, pos - s->pos);
	}
	if (end && end >= s->time)
		return emit_pending(s, pos, s->waits ? end : MIN(end, add_saturating(s->time, run)),
				    s->exact   ? 0
				    : s->stamp ? end - s->stamp
					       : UINT64_MAX);
	return emit_pending(s, pos, add_saturating(s->time, run), s->exact && s->started ? 0 : UINT64_MAX);
}

bool event_times_retarget(struct event_times *s, const struct region *from, const struct region *to)
{
	struct pending_event *item = s->n ? &s->items[s->n - 1] : NULL;

	if (!item || item->type != CALL_EVENT_ENTER || item->function != from)
		return false;
	item->function = to;
	return true;
}

static bool is_last_leave(const struct pending_event *item, const struct inlined *left)
{
	const struct inlined *last = item->from;

	if (item->type != CALL_EVENT_MOVE)
		return item->type == CALL_EVENT_LEAVE && item->kind == LEAVE_RETURN && item->inlined == left;
	if (item->entered)
		return false;
	for (unsigned i = 1; i < item->left; i++)
		last = last->parent;
	return last == left;
}

bool event_times_extend_call(struct event_times *s, uint64_t pos, const struct inlined *to)
{
	struct pending_event *item = s->n ? &s->items[s->n - 1] : NULL;

	if (!item || item->type != CALL_EVENT_MOVE || item->kind != CALL_INLINED || item->pos != pos ||
	    !item->entered || item->entered == UINT8_MAX || item->inlined != to->parent)
		return false;
	item->inlined = to;
	item->entered++;
	s->events++;
	return true;
}

/* Removes items from the end. */
static void keep_items(struct event_times *s, uint32_t n)
{
	s->n = n;
	s->n_counted = MIN(s->n_counted, n);
	for (size_t i = s->n_places; i-- > 0 && s->places[i].n > n;)
		s->places[i].n = n;
}

bool event_times_cancel_leave(struct event_times *s, const struct inlined *left)
{
	struct pending_event *item = s->n > s->committed ? &s->items[s->n - 1] : NULL;

	if (!item || !is_last_leave(item, left))
		return false;
	s->events--;
	if (item->type != CALL_EVENT_MOVE || !--item->left)
		keep_items(s, s->n - 1);
	return true;
}

bool event_times_begin_call(struct event_times *s, const struct inlined *to)
{
	bool left = s->n > s->committed && s->items[s->n - 1].type == CALL_EVENT_MOVE && s->items[s->n - 1].left == 1 &&
		    is_last_leave(&s->items[s->n - 1], to);
	uint32_t n = s->n - left;
	struct pending_event *item = n > s->committed ? &s->items[n - 1] : NULL;

	if (!item || item->type != CALL_EVENT_MOVE || item->kind != CALL_RESUMED || item->entered != 1 ||
	    item->inlined != to)
		return false;
	item->kind = CALL_INLINED;
	s->events -= left;
	keep_items(s, n);
	return true;
}

void event_times_done(struct event_times *s)
{
	free(s->items);
	free(s->places);
}
