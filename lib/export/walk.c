/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "lib/base/duration.h"
#include "lib/export/walk.h"

bool walk_wants(const struct export_walk *w, const struct store_thread *t)
{
	return t->events && (w->tid < 0 || (uint64_t)w->tid == t->tid) && t->first <= w->until && t->last >= w->since;
}

struct sought_ending {
	uint64_t tid;
	const char *text;
};

static int take_ending(void *user, const char *text, uint32_t tid)
{
	struct sought_ending *e = user;

	if (tid == e->tid)
		e->text = text;
	return e->text != NULL;
}

const char *walk_ending(const struct export_walk *w, const struct store_thread *t)
{
	struct sought_ending e = { .tid = t->tid };

	if (t->last <= w->until)
		store_endings(w->store, take_ending, &e);
	return e.text;
}

bool walk_trigger(const struct export_walk *w, const struct store_thread *t, uint64_t *ret_time,
		  char ret_text[WALK_TRIGGER_SIZE])
{
	const struct store_trigger *is = &w->trigger;
	char value[DURATION_SIZE];
	uint64_t tid = is->tid ? is->tid : store_meta_number(w->store, "ended_thread");

	if (!is->condition || t->tid != (tid ? tid : store_meta_number(w->store, "pid")))
		return false;
	*ret_time = is->time ? MAX(is->time, t->first) : t->last;
	if (*ret_time < w->since || *ret_time > w->until)
		return false;
	if (is->timed)
		snprintf(ret_text, WALK_TRIGGER_SIZE, "trigger: %s, took %s", is->condition,
			 duration_text(is->value, 0, value));
	else
		snprintf(ret_text, WALK_TRIGGER_SIZE, "trigger: %s", is->condition);
	return true;
}

size_t walk_first_note(const struct store *s, uint32_t tid)
{
	size_t low = 0, high = store_notes(s);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (store_note(s, middle)->tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct store_note *walk_note(const struct export_walk *w, const struct store_thread *t, size_t *at)
{
	const struct store_note *n;

	*at = MAX(*at, walk_first_note(w->store, t->tid));
	while ((n = store_note(w->store, *at)) && n->tid == t->tid) {
		++*at;
		if (n->time && n->time <= MIN(t->last, w->until) && n->until >= MAX(t->first, w->since) &&
		    n->kind != STORE_NOTE_COUNTER)
			return n;
	}
	return NULL;
}

const struct store_note *walk_sample(const struct export_walk *w, const struct store_thread *t, size_t *at,
				     bool *ret_inside)
{
	uint64_t first = t ? MAX(t->first, w->first) : w->first, last = t ? MIN(t->last, w->last) : w->last;
	uint32_t tid = t ? t->tid : 0;
	const struct store_note *n;

	*at = MAX(*at, walk_first_note(w->store, tid));
	while ((n = store_note(w->store, *at)) && n->tid == tid && n->time <= last) {
		++*at;
		*ret_inside = n->time >= first;
		if (n->kind == STORE_NOTE_COUNTER)
			return n;
	}
	return NULL;
}

uint32_t walk_track(const struct store_thread *t)
{
	char name[32];

	snprintf(name, sizeof(name), "cpu %u", t->tid);
	return strcmp(t->name, name) == 0 ? (UINT32_C(1) << 30) + t->tid : t->tid;
}

const char *walk_note_text(const struct store_note *n, char ret[WALK_NOTE_SIZE])
{
	if (n->kind != STORE_NOTE_ENDED)
		return n->label;
	snprintf(ret, WALK_NOTE_SIZE, "end of a span: %s", n->label);
	return ret;
}

size_t walk_counter(struct walk_counters *c, const char *label, bool *ret_new)
{
	size_t i = 0;

	while (i < c->n && strcmp(c->labels[i], label) != 0)
		i++;
	*ret_new = i == c->n && i < WALK_COUNTERS_MAX;
	if (*ret_new)
		c->labels[c->n++] = label;
	return i;
}

void walk_begin(struct export_walk *w, const struct store *s, const struct export_options *o, struct export_result *ret)
{
	uint64_t first = UINT64_MAX, last = 0;

	*w = (struct export_walk){
		.store = s, .since = o->since, .until = o->until ? o->until : UINT64_MAX, .tid = o->tid
	};
	/* An error is not reported here: a store that cannot be read fails again when its events are exported. */
	w->has_call = store_trigger(s, &w->trigger) && store_trigger_call(s, &w->call) == 1;
	*ret = (struct export_result){ 0 };
	if (o->budget)
		w->since = MAX(w->since, store_last_slices(s, o->tid, w->until, o->budget));
	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		ret->cut = ret->cut || (t->events && (w->tid < 0 || (uint64_t)w->tid == t->tid) &&
					t->first < w->since && w->since > o->since);
		if (!walk_wants(w, t))
			continue;
		first = MIN(first, t->first);
		last = MAX(last, t->last);
		ret->threads++;
	}
	if (!ret->threads)
		return;
	ret->since = w->first = MAX(first, w->since);
	ret->until = w->last = MIN(last, w->until);
}

/* The export of one thread, up to the event that was passed last. */
struct thread_walk {
	const struct export_walk *of;
	size_t thread;
	const struct store_iter *it;
	const struct walk_sink *sink;
	bool passed; /* an event was */
	uint64_t time, instructions;
};

static uint64_t bound_at(const struct thread_walk *w, uint64_t time)
{
	uint64_t twice = store_duration_bound(w->of->store, w->thread, time, time);

	return twice == UINT64_MAX ? twice : twice / 2;
}

/* Passes enters of the frames that are open where the export begins. */
static int pass_open_enters(const struct thread_walk *w)
{
	const struct store_frame *stack;
	size_t depth = store_iter_stack(w->it, &stack);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < depth; i++) {
		struct store_event e = {
			.type = STORE_ENTER, .kind = stack[i].kind, .depth = (uint32_t)i, .frame = stack[i]
		};

		e.time = MAX(stack[i].enter, w->of->since);
		e.bound = bound_at(w, e.time);
		e.instructions = stack[i].instructions;
		rc = w->sink->event(w->sink->user, &e, true);
	}
	return rc;
}

/* Returns the instructions up to the end of the export, which is between two events, by the time. */
static uint64_t instructions_at_end(const struct thread_walk *w, const struct store_event *beyond)
{
	uint64_t n = beyond->instructions - MIN(w->instructions, beyond->instructions);
	uint64_t length = beyond->time - w->time, part = w->of->until - MIN(w->time, w->of->until);

	if (!w->passed)
		return beyond->instructions;
	return w->instructions + (length ? (uint64_t)((unsigned __int128)n * part / length) : 0);
}

static int pass_leave(const struct thread_walk *w, const struct store_event *beyond, const struct store_frame *frame,
		      size_t depth)
{
	struct store_event e = { .type = STORE_LEAVE,
				 .kind = LEAVE_END,
				 .time = w->of->until,
				 .bound = bound_at(w, w->of->until),
				 .depth = (uint32_t)depth,
				 .frame = *frame,
				 .instructions = MAX(frame->instructions, instructions_at_end(w, beyond)) };

	return w->sink->event(w->sink->user, &e, true);
}

/*
 * Passes leaves of the frames that were open before `beyond`, the first event after the end, which has already changed
 * the stack.
 */
static int pass_open_leaves(const struct thread_walk *w, const struct store_event *beyond)
{
	const struct store_frame *stack;
	size_t depth = store_iter_stack(w->it, &stack);
	int rc = 0;

	if (beyond->type == STORE_LEAVE)
		rc = pass_leave(w, beyond, &beyond->frame, depth);
	else if (beyond->type == STORE_ENTER)
		depth--;
	while (rc == 0 && depth-- > 0)
		rc = pass_leave(w, beyond, &stack[depth], depth);
	return rc;
}

static int pass_event(const struct thread_walk *w, struct store_event *e, bool cut)
{
	if (e->type == STORE_GAP && e->until > w->of->until) {
		e->until = w->of->until;
		cut = true;
	}
	return w->sink->event(w->sink->user, e, cut);
}

int walk_thread(const struct export_walk *w, size_t thread, const struct walk_sink *sink)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	int rc = store_iter_new(w->store, thread, &it);
	struct thread_walk walk = { .of = w, .thread = thread, .it = it, .sink = sink };

	if (rc == 0 && w->since > store_thread(w->store, thread)->first) {
		rc = store_iter_seek(it, w->since);
		if (rc == 0)
			rc = pass_open_enters(&walk);
		if (rc == 0 && store_iter_gap(it, &e)) {
			e.time = w->since;
			rc = pass_event(&walk, &e, true);
		}
	}
	if (rc < 0)
		return rc;
	while ((rc = store_iter_next(it, &e)) == 1) {
		if (e.time > w->until)
			return pass_open_leaves(&walk, &e);
		rc = pass_event(&walk, &e, false);
		if (rc < 0)
			return rc;
		walk.passed = true;
		walk.time = e.time;
		walk.instructions = e.instructions;
	}
	return rc;
}
