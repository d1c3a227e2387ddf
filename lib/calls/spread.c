#include <string.h>

#include "lib/calls/spread.h"

enum {
	ITEMS_MAX = 1 << 15, /* without a timestamp for so long, times are guessed */
	PACE_ONE = 1024,
	PACE_GUESS = PACE_ONE, /* one instruction a nanosecond, before anything is known */
	PACE_MAX = 1000 * PACE_ONE,
	PACE_SAMPLE = 64, /* instructions that a stretch needs to tell anything */
};

struct spread_item {
	uint64_t pos;
	const struct region *function;
	const struct inlined *inlined;
	uint32_t waits; /* before it, in its stretch */
	uint8_t type, kind;
};

static uint64_t scale(uint64_t value, uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((unsigned __int128)value * part / whole) : 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* How long n instructions take at the present pace. */
static uint64_t run_time(const struct spread *s, uint64_t n)
{
	unsigned __int128 t = (unsigned __int128)n * (s->pace ? s->pace : PACE_GUESS) / PACE_ONE;

	return t > INT64_MAX ? INT64_MAX : (uint64_t)t;
}

static int emit(struct spread *s, const struct spread_item *item, uint64_t time, uint64_t bound)
{
	struct call_event e = { .type = item->type,
				.kind = item->kind,
				.instructions = item->pos,
				.bound = bound,
				.function = item->function,
				.inlined = item->inlined };

	e.time = MAX(time, s->last);
	if (!s->last)
		s->counts->first = e.time;
	s->last = s->counts->last = e.time;
	if (bound != UINT64_MAX && bound > s->counts->bound)
		s->counts->bound = bound;
	return s->sink.event(s->sink.user, &e);
}

/* Everything that waits goes out, in the stretch from s->time to end; the next stretch begins there. */
static int flush(struct spread *s, uint64_t pos, uint64_t end, uint64_t bound)
{
	uint64_t begin = s->time, length, instructions = pos - s->pos, run;
	int rc = 0;

	end = MAX(end, begin);
	length = end - begin;
	run = s->waits ? MIN(length, run_time(s, instructions)) : length;
	for (uint32_t i = 0; rc == 0 && i < s->n; i++) {
		const struct spread_item *item = &s->items[i];

		rc = emit(s, item,
			  begin + scale(run, item->pos - s->pos, instructions) +
			      scale(length - run, item->waits, s->waits),
			  bound);
	}
	s->n = 0;
	s->waits = 0;
	s->time = end;
	s->pos = pos;
	s->started = true;
	return rc;
}

static void learn_pace(struct spread *s, uint64_t instructions, uint64_t length)
{
	uint64_t sample;

	if (s->waits || s->guessed || instructions < PACE_SAMPLE)
		return;
	sample = MIN(scale(length, PACE_ONE, instructions), (uint64_t)PACE_MAX);
	sample = MAX(sample, (uint64_t)1);
	/* A stretch in which the thread was not running says little about its pace. */
	s->pace = s->pace ? (7 * s->pace + MIN(sample, 4 * s->pace)) / 8 : sample;
	s->pace = MAX(s->pace, (uint64_t)1);
}

static int flush_guess(struct spread *s, uint64_t pos)
{
	s->guessed = true;
	return flush(s, pos, add(s->time, run_time(s, pos - s->pos)), UINT64_MAX);
}

int spread_put(struct spread *s, uint64_t pos, enum call_event_type type, unsigned kind, const struct region *function,
	       const struct inlined *inlined)
{
	if (s->n == s->room) {
		uint32_t room = s->room ? s->room * 2 : 256;
		struct spread_item *items;

		if (s->n == ITEMS_MAX) {
			int rc = flush_guess(s, pos);

			if (rc < 0)
				return rc;
			return spread_put(s, pos, type, kind, function, inlined);
		}
		items = realloc(s->items, room * sizeof(*items));
		if (!items)
			return -ENOMEM;
		s->items = items;
		s->room = room;
	}
	s->items[s->n++] = (struct spread_item){ pos, function, inlined, s->waits, (uint8_t)type, (uint8_t)kind };
	return 0;
}

void spread_wait(struct spread *s)
{
	s->waits++;
}

int spread_timestamp(struct spread *s, uint64_t pos, uint64_t time)
{
	uint64_t instructions = pos - s->pos, run, bound;
	int rc;

	s->counts->timestamps++;
	if (s->stamp && time < s->stamp) {
		s->counts->backwards++;
		time = s->stamp;
	}
	if (!s->started) {
		/* What came before the first timestamp is counted back from it. */
		run = run_time(s, instructions);
		s->time = time - MIN(run, time);
		bound = UINT64_MAX;
	} else {
		bound = s->stamp ? time - s->stamp : UINT64_MAX;
		learn_pace(s, instructions, time - MIN(time, s->time));
	}
	rc = flush(s, pos, time, bound);
	s->stamp = time;
	s->guessed = false;
	return rc;
}

int spread_end(struct spread *s, uint64_t pos, uint64_t end)
{
	uint64_t run = run_time(s, pos - s->pos);

	if (end && !s->started)
		s->time = end - MIN(run, end);
	if (end && end >= s->time)
		return flush(s, pos, s->waits ? end : MIN(end, add(s->time, run)),
			     s->stamp ? end - s->stamp : UINT64_MAX);
	return flush(s, pos, add(s->time, run), UINT64_MAX);
}

bool spread_rename(struct spread *s, const struct region *from, const struct region *to)
{
	struct spread_item *item = s->n ? &s->items[s->n - 1] : NULL;

	if (!item || item->type != CALL_EVENT_ENTER || item->function != from)
		return false;
	item->function = to;
	return true;
}

void spread_done(struct spread *s)
{
	free(s->items);
}
