/* Where the native engine puts what is to be told. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-part.h"

enum {
	FIRST = 8192, /* words, calls */
	FIRST_EVENTS = 4096,
	ROOM_WORDS = 32 << 10,
	ROOM_CALLS = 16 << 10,
	ROOM_EVENTS = 512,
	ROOM_LEAST = 512, /* words, or calls; with less it is left */
};

static bool is_of_calls(const struct native *e)
{
	return e->sink.outlet == NATIVE_CALLS;
}

static struct out_room *new_room(const struct native *e, size_t words, size_t calls, size_t events)
{
	size_t size = calls * sizeof(struct native_call) + events * (sizeof(struct element) + 2 * sizeof(uint64_t)) +
		      words * (sizeof(uint32_t) + (e->sink.offsets ? sizeof(uint64_t) : 0));
	struct out_room *r = malloc(sizeof(*r) + size);

	if (r)
		*r = (struct out_room){ NULL, words, calls, events, size };
	return r;
}

static void settle_in(struct native *e, struct out_room *r)
{
	struct native_out *o = &e->out;

	o->calls = (struct native_call *)r->memory;
	o->events = (struct element *)(o->calls + r->calls);
	o->leads = (uint64_t *)(o->events + r->events);
	o->ranges = o->leads + r->events;
	o->offsets = e->sink.offsets ? o->ranges + r->events : NULL;
	o->words = (uint32_t *)(o->ranges + r->events + (e->sink.offsets ? r->words : 0));
	o->room = r->words;
	o->calls_room = r->calls;
	o->events_room = r->events;
}

static void copy(void *to, const void *from, size_t n, size_t size)
{
	if (n)
		memcpy(to, from, n * size);
}

int out_next_room(struct native *e)
{
	struct native_part *p = e->part;
	struct native_out *o = &e->out, old = *o;
	size_t words = is_of_calls(e) ? FIRST : ROOM_WORDS, calls = is_of_calls(e) ? ROOM_CALLS : 0;
	struct out_room *r = p->spare;

	if (r && old.n <= r->words / 2 && old.n_calls <= r->calls / 2 && old.n_events <= r->events / 2)
		p->spare = r->next;
	else
		r = new_room(e, MAX(words, 2 * old.n), MAX(calls, 2 * old.n_calls),
			     MAX(2 * old.n_events, (size_t)ROOM_EVENTS));
	if (!r)
		return -ENOMEM;
	r->next = p->rooms;
	p->rooms = r;
	p->kept += r->size;
	settle_in(e, r);
	copy(o->words, old.words, old.n, sizeof(*o->words));
	copy(o->offsets, old.offsets, o->offsets ? old.n : 0, sizeof(*o->offsets));
	copy(o->calls, old.calls, old.n_calls, sizeof(*o->calls));
	copy(o->events, old.events, old.n_events, sizeof(*o->events));
	copy(o->leads, old.leads, old.n_events, sizeof(*o->leads));
	copy(o->ranges, old.ranges, old.n_events, sizeof(*o->ranges));
	return 0;
}

void out_leave(struct native *e)
{
	e->out = (struct native_out){ 0 };
}

void out_rooms_free(struct out_room *r)
{
	while (r) {
		struct out_room *next = r->next;

		free(r);
		r = next;
	}
}

static int more_words(struct native *e)
{
	struct native_out *o = &e->out;
	size_t room = o->room ? o->room * 2 : FIRST;
	uint32_t *words;
	uint64_t *offsets;

	if (e->part)
		return out_next_room(e);
	words = reallocarray(o->words, room, sizeof(*words));
	if (!words)
		return -ENOMEM;
	o->words = words;
	if (e->sink.offsets) {
		offsets = reallocarray(o->offsets, room, sizeof(*offsets));
		if (!offsets)
			return -ENOMEM;
		o->offsets = offsets;
	}
	o->room = room;
	return 0;
}

static int more_events(struct native *e)
{
	struct native_out *o = &e->out;
	size_t room = o->events_room ? o->events_room * 2 : FIRST_EVENTS;
	struct element *events;
	uint64_t *all;

	if (e->part)
		return out_next_room(e);
	events = reallocarray(o->events, room, sizeof(*events));
	if (!events)
		return -ENOMEM;
	o->events = events;
	all = reallocarray(o->leads, room, sizeof(*all));
	if (!all)
		return -ENOMEM;
	o->leads = all;
	all = reallocarray(o->ranges, room, sizeof(*all));
	if (!all)
		return -ENOMEM;
	o->ranges = all;
	o->events_room = room;
	return 0;
}

int out_more_calls(struct native *e)
{
	struct native_out *o = &e->out;
	size_t room = o->calls_room ? o->calls_room * 2 : FIRST;
	struct native_call *calls;

	if (e->part)
		return out_next_room(e);
	calls = reallocarray(o->calls, room, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	o->calls = calls;
	o->calls_room = room;
	return 0;
}

static int out_word(struct native *e, uint32_t word, uint64_t offset)
{
	struct native_out *o = &e->out;

	if (o->n == o->room && more_words(e) < 0)
		return -ENOMEM;
	if (o->offsets)
		o->offsets[o->n] = offset;
	o->words[o->n++] = word;
	return 0;
}

int out_range(struct native *e, uint32_t block, bool taken, uint64_t offset)
{
	return out_word(e, 2 * block + taken, offset);
}

int out_piece(struct native *e, const struct element *event, uint64_t leads, uint64_t offset)
{
	struct native_out *o = &e->out;

	if (o->n_events == o->events_room && more_events(e) < 0)
		return -ENOMEM;
	o->leads[o->n_events] = leads;
	o->events[o->n_events] = *event;
	o->events[o->n_events++].offset = offset;
	return out_word(e, NATIVE_EVENT, offset);
}

int out_event(struct native *e, const struct element *event, uint64_t offset)
{
	return out_piece(e, event, NATIVE_NOWHERE, offset);
}

/* What was told stays where it is. */
static void pass_by(struct native *e)
{
	struct native_out *o = &e->out;

	o->words += e->mark;
	o->offsets += o->offsets ? e->mark : 0;
	o->room -= e->mark;
	o->events += e->mark_events;
	o->leads += e->mark_events;
	o->ranges += e->mark_events;
	o->events_room -= e->mark_events;
	o->calls += o->n_calls;
	o->calls_room -= o->n_calls;
}

static void move_down(struct native *e)
{
	struct native_out *o = &e->out;

	if (o->n && e->mark)
		memmove(o->words, o->words + e->mark, o->n * sizeof(*o->words));
	if (o->n && e->mark && o->offsets)
		memmove(o->offsets, o->offsets + e->mark, o->n * sizeof(*o->offsets));
	if (o->n_events && e->mark_events) {
		memmove(o->events, o->events + e->mark_events, o->n_events * sizeof(*o->events));
		memmove(o->leads, o->leads + e->mark_events, o->n_events * sizeof(*o->leads));
	}
}

int out_drop(struct native *e)
{
	struct native_out *o = &e->out;
	bool stays = e->part && e->part->stretch;

	o->n -= e->mark;
	o->n_events -= e->mark_events;
	if (stays)
		pass_by(e);
	else
		move_down(e);
	o->n_calls = 0;
	e->mark = e->mark_events = 0;
	return stays && (is_of_calls(e) ? o->calls_room : o->room) < ROOM_LEAST ? out_next_room(e) : 0;
}

void out_free(struct native *e)
{
	struct native_out *o = &e->out;

	free(o->calls);
	free(o->words);
	free(o->offsets);
	free(o->events);
	free(o->leads);
	free(o->ranges);
}
