/* SPDX-License-Identifier: MIT */
/*
 * Notes of the program: the writer finds the time of each, and makes spans of their beginnings and ends. In a trace
 * with marks (lib/notes/notes.h), a note is where its thread called csight_note_mark(); otherwise its own time is used.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/store/writer.h"

enum { STEP_INSTRUCTIONS = 2 }; /* of csight_note_mark() */

static const char mark_function[] = "csight_note_mark";

/* A note whose place is looked for. */
struct sought_note {
	uint64_t index, begin;
	int64_t value;
	uint64_t time, begin_time; /* 0: unknown */
	uint32_t tid, label;
	enum notes_kind kind;
	bool sought;
};

struct writer_notes {
	struct sought_note *list[NOTES_ENTRIES]; /* by index */
	uint64_t base;                           /* instructions of the shortest mark; 0: none was seen */
	struct sought_note notes[];              /* sorted by index */
};

void store_notes_function(struct store_writer *w, uint32_t function, const char *name)
{
	if (w->sought && strcmp(name, mark_function) == 0)
		w->mark_function = function;
}

/* Sets the time of the note whose index the marks have. */
static void place_note(const struct store_writer *w, const struct writer_thread *t)
{
	struct sought_note *n = w->sought->list[t->marks.index % NOTES_ENTRIES];

	if (n && n->tid == t->tid && (n->index & ((1u << NOTES_DIGITS * NOTES_BITS) - 1)) == t->marks.index)
		n->time = t->marks.time;
}

void store_notes_mark(struct store_writer *w, struct writer_thread *t, uint64_t enter, uint64_t instructions)
{
	struct writer_marks *m = &t->marks;
	uint64_t steps;

	if (!w->sought->base || instructions < w->sought->base)
		w->sought->base = instructions;
	steps = (instructions - w->sought->base) / STEP_INSTRUCTIONS;
	if (steps == 0) {
		*m = (struct writer_marks){ .n = 1, .time = enter };
	} else if (m->n == 0 || steps > 1u << NOTES_BITS) {
		m->n = 0;
	} else if (m->n <= NOTES_DIGITS) {
		m->index |= (steps - 1) << (m->n - 1) * NOTES_BITS;
		m->n++;
	} else {
		if (steps == notes_steps(m->index, NOTES_MARKS - 1))
			place_note(w, t);
		m->n = 0;
	}
}

/* Adds a label to the texts, up to its first NUL: it comes from the program, and may be any bytes. *ret: its offset. */
static int add_label(struct store_writer *w, const struct note *n, uint32_t *ret)
{
	char label[NOTES_LABEL_MAX + 1];
	size_t size = MIN(n->label_size, (size_t)NOTES_LABEL_MAX);

	memcpy(label, n->label, size);
	label[size] = 0;
	return texts_find(&w->strings, label, ret);
}

int store_put_notes(struct store_writer *w, const struct note *notes, size_t n)
{
	int rc = 0;

	if (!n || w->sought)
		return 0;
	w->sought = calloc(1, sizeof(*w->sought) + n * sizeof(w->sought->notes[0]));
	if (!w->sought)
		return -ENOMEM;
	w->n_sought = n;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct sought_note *to = &w->sought->notes[i];

		*to = (struct sought_note){ .index = notes[i].index,
					    .begin = notes[i].begin,
					    .value = notes[i].value,
					    .time = notes[i].time,
					    .begin_time = notes[i].begin_time,
					    .tid = notes[i].tid,
					    .kind = notes[i].kind };
		rc = add_label(w, &notes[i], &to->label);
		w->sought->list[to->index % NOTES_ENTRIES] = to;
	}
	return rc;
}

int store_put_note(struct store_writer *w, const struct store_note *note)
{
	struct writer_note n = {
		.tid = note->tid, .kind = note->kind, .time = note->time, .until = note->until, .value = note->value
	};
	int rc = array_reserve(w->notes, w->n_notes, &w->cap_notes);

	if (rc == 0)
		rc = texts_find(&w->strings, note->label, &n.label);
	if (rc == 0)
		w->notes[w->n_notes++] = n;
	return rc;
}

/* Returns the beginning of a span, if it was not overwritten. */
static struct sought_note *begin_of(const struct store_writer *w, const struct sought_note *end)
{
	struct sought_note *n = w->sought->list[end->begin % NOTES_ENTRIES];

	return n && n->index == end->begin && n->kind == NOTES_BEGIN && n->tid == end->tid ? n : NULL;
}

static struct writer_note make_note(const struct store_writer *w, const struct sought_note *n)
{
	struct writer_note to = { .tid = n->tid, .label = n->label, .time = n->time, .value = n->value };
	struct sought_note *begin = n->kind == NOTES_END ? begin_of(w, n) : NULL;

	if (n->kind == NOTES_BEGIN) {
		to.kind = STORE_NOTE_OPEN;
	} else if (n->kind == NOTES_END) {
		to.until = n->time;
		to.time = begin ? begin->time : n->begin_time;
		to.kind = to.time ? STORE_NOTE_SPAN : STORE_NOTE_ENDED;
		if (!to.time)
			to.time = to.until;
		/* The end of the span has no place in the trace. */
		if (!to.until)
			to.kind = STORE_NOTE_OPEN;
	}
	to.until = MAX(to.until, to.time);
	return to;
}

static int compare_notes(const void *left, const void *right)
{
	const struct writer_note *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	/* Of spans that begin together, the longest one is around the others. */
	if (a->until != b->until)
		return a->until < b->until ? 1 : -1;
	return (a->label > b->label) - (a->label < b->label);
}

static bool is_same(const struct writer_note *a, const struct writer_note *b)
{
	return a->kind == b->kind && a->label == b->label && a->time == b->time && a->value == b->value;
}

/* Of a store that is merged of several, each has the samples that belong to no thread. */
static void drop_repeated(struct store_writer *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n_notes; i++)
		if (i == 0 || w->notes[i].tid != 0 || w->notes[i].kind != STORE_NOTE_COUNTER ||
		    !is_same(&w->notes[i - 1], &w->notes[i]))
			w->notes[n++] = w->notes[i];
	w->n_notes = n;
}

int store_place_notes(struct store_writer *w)
{
	/* The beginning of a span whose end is known gets no note of its own: the note of the end has both. */
	for (size_t i = 0; i < w->n_sought; i++) {
		const struct sought_note *n = &w->sought->notes[i];
		struct sought_note *begin = n->kind == NOTES_END ? begin_of(w, n) : NULL;

		if (begin)
			begin->sought = true;
	}
	for (size_t i = 0; i < w->n_sought; i++) {
		const struct sought_note *n = &w->sought->notes[i];

		if (n->sought)
			continue;
		if (array_reserve(w->notes, w->n_notes, &w->cap_notes) < 0)
			return -ENOMEM;
		w->notes[w->n_notes++] = make_note(w, n);
	}
	if (w->n_notes)
		qsort(w->notes, w->n_notes, sizeof(*w->notes), compare_notes);
	drop_repeated(w);
	return 0;
}

const char *store_note_kind_str(enum store_note_kind kind)
{
	static const char *const kinds[STORE_NOTE_KINDS] = { [STORE_NOTE_POINT] = "note",
							     [STORE_NOTE_SPAN] = "span",
							     [STORE_NOTE_OPEN] = "open",
							     [STORE_NOTE_ENDED] = "ended",
							     [STORE_NOTE_COUNTER] = "counter" };

	return kinds[kind];
}
