/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/duration.h"
#include "lib/base/escape.h"
#include "lib/export/timeline-private.h"
#include "lib/notes/notes.h"

enum { DURATION_COLUMNS = 10, NAME_LEAST = 16 };

#define DIM "\033[2m"
#define BOLD "\033[1m"
#define RED "\033[31m"
#define YELLOW "\033[33m"
#define CYAN "\033[36m"
#define PLAIN "\033[0m"

static const char *paint(const struct timeline_output *o, const char *code)
{
	return o->options->colour ? code : "";
}

static void print_time(struct timeline_output *o, uint64_t time)
{
	buf_printf(&o->out.buf, "%s%*.6f ms%s  ", paint(o, DIM), o->time_columns - 3,
		   (double)(time - MIN(time, o->start)) / 1e6, paint(o, PLAIN));
}

/* Prints the beginning of a line; returns the columns that are left for the rest, or 0 for no limit. */
static size_t print_begin(struct timeline_output *o, const struct timeline_line *line, const char *colour)
{
	size_t columns = o->options->columns, used = (size_t)o->time_columns + 2 + DURATION_COLUMNS + 1 + 2;
	size_t indent = 2 * (size_t)line->level;
	char time[DURATION_SIZE];

	if (columns) {
		columns -= MIN(used + NAME_LEAST, columns) - NAME_LEAST;
		indent = MIN(indent, columns / 2);
		columns -= indent;
	}
	if (line->type == TIMELINE_DEEPER) {
		buf_printf(&o->out.buf, "%*s", (int)(used + indent), "");
		return columns;
	}
	print_time(o, line->time);
	buf_printf(&o->out.buf, "%s%*s%s%s  %*s", paint(o, colour), DURATION_COLUMNS,
		   duration_text(line->ns, add_saturating(line->bound, line->bound), time),
		   line->partial || line->unfinished ? "+" : " ", *colour ? paint(o, PLAIN) : "", (int)indent, "");
	return columns;
}

/* Appends a note to those of a line if it fits. */
static void add_note(char *notes, size_t size, size_t *left, const char *note)
{
	size_t used = strlen(notes), width = strlen(note);

	if (*left && width >= *left)
		return;
	snprintf(notes + used, size - used, "%s", note);
	*left -= *left ? width : 0;
}

static void print_call(struct timeline_output *o, const struct timeline_line *line)
{
	const struct store_function *f = store_function(o->walk->store, line->function);
	const char *full = names_short(o->options->names, f->name);
	size_t left = print_begin(o, line, line->slow ? YELLOW : ""), room;
	char count[32] = "", notes[120] = "", *name;
	enum call_kind kind = line->kind;

	if (line->total > 1)
		snprintf(count, sizeof(count), " x%s%ju", f->calls_uncertain ? "~" : "", (uintmax_t)line->total);
	left -= left ? MIN(left - 1, strlen(count)) : 0;
	room = left ? left - MIN(left - 1, (size_t)NAME_LEAST) : 0;
	if (f->kind == REGION_INLINED)
		add_note(notes, sizeof(notes), &room, " (inlined)");
	if (f->kind == REGION_SYSCALL)
		add_note(notes, sizeof(notes), &room, " (system call)");
	if (calls_kind_is_tail(kind))
		add_note(notes, sizeof(notes), &room, kind == CALL_FOLDED ? " (tail call, folded)" : " (tail call)");
	if (calls_kind_is_resumed(kind))
		add_note(notes, sizeof(notes), &room, " (continued)");
	if (kind == CALL_SIGNAL)
		add_note(notes, sizeof(notes), &room, " (signal)");
	if (line->trigger)
		add_note(notes, sizeof(notes), &room, " (trigger)");
	if (line->unfinished)
		add_note(notes, sizeof(notes), &room, " (unfinished)");
	left -= left ? MIN(left - 1, strlen(notes)) : 0;
	name = malloc(4 * strlen(full) + 1);
	if (!name) {
		o->out.error = -ENOMEM;
		return;
	}
	escape_text(full, name, 4 * strlen(full) + 1);
	buf_printf(&o->out.buf, "%s%s%s%s%s%s%s%s\n", paint(o, line->slow ? YELLOW : BOLD),
		   fit_text(&o->fit, name, left), paint(o, PLAIN), count, paint(o, *notes ? DIM : ""), notes,
		   paint(o, *notes ? PLAIN : ""), "");
	free(name);
}

static void print_note(struct timeline_output *o, const struct timeline_line *line)
{
	static const char *const kinds[] = { [STORE_NOTE_POINT] = "note",
					     [STORE_NOTE_SPAN] = "span",
					     [STORE_NOTE_OPEN] = "span without an end",
					     [STORE_NOTE_ENDED] = "end of a span" };
	const struct store_note *n = store_note(o->walk->store, line->function);
	char label[4 * NOTES_LABEL_MAX + 1];
	bool span = n->kind == STORE_NOTE_SPAN;

	escape_text(n->label, label, sizeof(label));
	if (span) {
		print_begin(o, line, "");
	} else {
		print_time(o, n->time);
		buf_printf(&o->out.buf, "%*s   %*s", DURATION_COLUMNS, "", (int)(2 * line->level), "");
	}
	buf_printf(&o->out.buf, "%s--- %s: %s", paint(o, CYAN), kinds[n->kind], label);
	if (n->kind != STORE_NOTE_OPEN)
		buf_printf(&o->out.buf, " = %jd", (intmax_t)n->value);
	buf_printf(&o->out.buf, " ---%s\n", paint(o, PLAIN));
}

void timeline_print_line(struct timeline_output *o, const struct timeline_line *line)
{
	char count[32] = "";

	switch (line->type) {
	case TIMELINE_CALL:
		print_call(o, line);
		break;
	case TIMELINE_GAP:
		print_begin(o, line, RED);
		if (line->total > 1)
			snprintf(count, sizeof(count), " x%ju", (uintmax_t)line->total);
		buf_printf(&o->out.buf, "%s--- gap: %s%s ---%s\n", paint(o, RED), calls_gap_str(line->kind), count,
			   paint(o, PLAIN));
		break;
	case TIMELINE_NOTE:
		print_note(o, line);
		break;
	case TIMELINE_MARK:
		print_time(o, line->time);
		buf_printf(&o->out.buf, "%*s   %*s%s--- %s ---%s\n", DURATION_COLUMNS, "", (int)(2 * line->level), "",
			   paint(o, CYAN), calls_mark_str(line->kind), paint(o, PLAIN));
		break;
	case TIMELINE_DEEPER:
		print_begin(o, line, "");
		buf_printf(&o->out.buf, "%s... %ju call%s deeper%s\n", paint(o, DIM), (uintmax_t)line->total,
			   line->total == 1 ? "" : "s", paint(o, PLAIN));
		break;
	}
	out_flush_if_full(&o->out);
}

/* Counts the notes of a thread that have no place in its trace: those in gaps, and those from before or after it. */
static size_t count_unplaced_notes(const struct timeline_output *o, const struct store_thread *t)
{
	const struct store_note *n;
	size_t beside = 0;

	for (size_t i = walk_first_note(o->walk->store, t->tid);
	     (n = store_note(o->walk->store, i)) && n->tid == t->tid; i++)
		beside += n->kind != STORE_NOTE_COUNTER && (!n->time || n->time > t->last || n->until < t->first);
	return beside;
}

/* Prints what each counter of a thread has counted up to its last sample in the exported part of the trace. */
static void print_counters(struct timeline_output *o, const struct store_thread *t)
{
	uint64_t before[WALK_COUNTERS_MAX], last[WALK_COUNTERS_MAX];
	struct walk_counters counters = { .n = 0 };
	const struct store_note *n;
	bool inside, new;
	size_t at = 0;

	while ((n = walk_sample(o->walk, t, &at, &inside))) {
		size_t i = walk_counter(&counters, n->label, &new);

		if (i == WALK_COUNTERS_MAX)
			continue;
		if (new)
			before[i] = 0;
		last[i] = (uint64_t)n->value;
		if (!inside)
			before[i] = last[i];
	}
	for (size_t i = 0; i < counters.n; i++) {
		char name[512];

		buf_printf(&o->out.buf, "%s%s %ju",
			   i ? ", " : "  counted: ", escape_text(counters.labels[i], name, sizeof(name)),
			   (uintmax_t)(last[i] - before[i]));
	}
	if (counters.n)
		buf_printf(&o->out.buf, "\n");
}

void timeline_print_levels(struct timeline_output *o)
{
	int64_t least[WALK_COUNTERS_MAX], most[WALK_COUNTERS_MAX];
	struct walk_counters counters = { .n = 0 };
	const struct store_note *n;
	bool inside, new;
	char name[512];
	size_t at = 0;

	while ((n = walk_sample(o->walk, NULL, &at, &inside))) {
		size_t i = inside ? walk_counter(&counters, n->label, &new) : WALK_COUNTERS_MAX;

		if (i == WALK_COUNTERS_MAX)
			continue;
		least[i] = new ? n->value : MIN(least[i], n->value);
		most[i] = new ? n->value : MAX(most[i], n->value);
	}
	for (size_t i = 0; i < counters.n; i++)
		buf_printf(&o->out.buf, "%s: changes, %jd to %jd\n",
			   escape_text(counters.labels[i], name, sizeof(name)), (intmax_t)least[i], (intmax_t)most[i]);
}

void timeline_print_head(struct timeline_output *o, size_t thread, const struct timeline_summary *s)
{
	const struct store_thread *t = store_thread(o->walk->store, thread);
	unsigned quality = store_quality(o->walk->store, thread);
	size_t beside = count_unplaced_notes(o, t);
	char name[256], time[DURATION_SIZE], error[DURATION_ERROR_SIZE];
	struct buf *b = &o->out.buf;

	buf_printf(b, "%sthread %u %s%s: %s, %ju call%s", paint(o, BOLD), t->tid,
		   escape_text(t->name, name, sizeof(name)), paint(o, PLAIN),
		   duration_text(s->last - MIN(s->last, s->first), t->bound == UINT64_MAX ? t->bound : 0, time),
		   (uintmax_t)s->calls, s->calls == 1 ? "" : "s");
	buf_printf(b, "%s", duration_error_text(t->bound, error));
	if (quality < 10000)
		buf_printf(b, ", %u.%02u %% known", quality / 100, quality % 100);
	buf_printf(b, "\n");
	if (t->unexplained || s->uncertain)
		buf_printf(b, "  %ju unexplained jumps, depth uncertain %ju times\n", (uintmax_t)t->unexplained,
			   (uintmax_t)s->uncertain);
	for (unsigned i = 0; i < STORE_GAP_KINDS; i++)
		if (s->gaps_of[i])
			buf_printf(b, "  %s%ju gap%s, %s: %s%s\n", paint(o, RED), (uintmax_t)s->gaps_of[i],
				   s->gaps_of[i] == 1 ? "" : "s", duration_text(s->gap_ns[i], 0, time),
				   calls_gap_str(i), paint(o, PLAIN));
	if (beside)
		buf_printf(b, "  %zu note%s not in the trace: older, or in a gap\n", beside,
			   beside == 1 ? " is" : "s are");
	print_counters(o, t);
	buf_printf(b, "%s%*s  %*s   FUNCTION%s\n", paint(o, BOLD), o->time_columns, "TIME", DURATION_COLUMNS,
		   "DURATION", paint(o, PLAIN));
}

void timeline_print_ending(struct timeline_output *o, size_t thread)
{
	const struct store_thread *t = store_thread(o->walk->store, thread);
	const char *ending = walk_ending(o->walk, t);
	char text[1024], trigger[WALK_TRIGGER_SIZE];
	uint64_t time;

	if (walk_trigger(o->walk, t, &time, trigger)) {
		print_time(o, time);
		buf_printf(&o->out.buf, "%*s   %s%s%s\n", DURATION_COLUMNS, "", paint(o, YELLOW),
			   escape_text(trigger, text, sizeof(text)), paint(o, PLAIN));
	}
	if (!ending)
		return;
	print_time(o, t->last);
	buf_printf(&o->out.buf, "%*s   %s%s%s\n", DURATION_COLUMNS, "", paint(o, RED),
		   escape_text(ending, text, sizeof(text)), paint(o, PLAIN));
}
