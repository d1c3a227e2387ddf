/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/export/timeline-private.h"

/* The lines that are kept; a call with more than LONG events beneath is long: its end is found by the first reading. */
enum { LINES_MAX = 1 << 16, LONG = 1 << 14 };

enum { NONE = -1 };

/* The end of a long call, by its number among all that begin. */
struct long_call {
	uint64_t number;
	uint64_t end, bound;
	bool unfinished;
};

struct open_frame {
	struct store_frame frame;
	uint64_t number;
	uint64_t events; /* first reading: how many there were when it began */
	uint64_t bound;  /* of the time at which it began */
	int32_t line;    /* its line among those kept, or NONE */
	int32_t last;    /* the line of its last complete call, or NONE */
	int32_t at;      /* the open frame whose level and lines it shares: itself if it has a line; NONE: the thread */
	uint32_t level;
	uint64_t deeper;
	bool has_line;  /* kept or printed */
	uint32_t above; /* number of frames below it in the stack that can have lines */
	bool hidden;    /* it can have none */
	bool pending;   /* it gets its line before the first call that is printed */
	bool partial;
};

struct timeline {
	struct timeline_output output;
	const struct store_thread *thread;
	const struct export_walk *walk; /* of the reading */
	struct timeline_summary summary;
	size_t note;        /* the next one, as of walk_note() */
	uint64_t note_time; /* of it, or an earlier time */
	bool first_reading;
	bool bare;       /* frames open at the beginning get no lines, nor those of its first bare_events */
	uint64_t inside; /* events so far that no limit cuts */
	unsigned depth;
	uint64_t skip;   /* calls to come that are not printed */
	uint64_t number; /* frames so far */
	uint64_t events;
	struct open_frame *stack;
	size_t n_stack, cap_stack;
	size_t n_pending; /* of these */
	struct timeline_line *lines;
	size_t n_lines, cap_lines;
	int32_t last; /* as of open_frame, of the thread */
	struct long_call *longs;
	size_t n_longs, cap_longs;
};

/* Returns the innermost frame that has a line, or NULL. */
static struct open_frame *owner(struct timeline *t)
{
	int32_t at = t->n_stack ? t->stack[t->n_stack - 1].at : NONE;

	return at == NONE ? NULL : &t->stack[at];
}

static int add_line(struct timeline *t, const struct timeline_line *line)
{
	if (array_reserve(t->lines, t->n_lines, &t->cap_lines) < 0)
		return -ENOMEM;
	t->lines[t->n_lines++] = *line;
	return 0;
}

static bool lines_equal(const struct timeline_line *a, const struct timeline_line *b, bool first)
{
	if (a->type != b->type || a->level != b->level || a->size != b->size)
		return false;
	if (a->type == TIMELINE_DEEPER || a->type == TIMELINE_NOTE || a->type == TIMELINE_MARK)
		return a->type == TIMELINE_DEEPER;
	return a->function == b->function && a->kind == b->kind && (first || a->each == b->each) && !a->slow &&
	       !b->slow && !a->trigger && !b->trigger && !a->partial && !b->partial && !a->unfinished && !b->unfinished;
}

/* Lets the lines from `line` on, which are complete, share those of the call before if both are equal. */
static void complete(struct timeline *t, size_t line, int32_t *last)
{
	struct timeline_line *b = &t->lines[line], *a = *last == NONE ? NULL : &t->lines[*last];
	size_t n = t->n_lines - line;
	bool equal;

	b->size = (uint32_t)n;
	equal = a && (size_t)*last + a->size == line;
	for (size_t i = 0; equal && i < n; i++)
		equal = lines_equal(&a[i], &b[i], i == 0);
	if (!equal) {
		*last = (int32_t)line;
		return;
	}
	a->each += b->each;
	for (size_t i = 0; i < n; i++) {
		a[i].ns += b[i].ns;
		a[i].total += b[i].total;
		a[i].bound = MAX(a[i].bound, b[i].bound);
	}
	t->n_lines = line;
}

static const struct long_call *find_long(const struct timeline *t, uint64_t number)
{
	size_t low = 0, high = t->n_longs;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (t->longs[middle].number == number)
			return &t->longs[middle];
		if (t->longs[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static int32_t shift(int32_t line, size_t by)
{
	return line == NONE || (size_t)line < by ? NONE : line - (int32_t)by;
}

/* Sets what is known of a call at its end. */
static void set_end(struct timeline *t, const struct open_frame *f, uint64_t end, uint64_t bound, bool unfinished)
{
	struct timeline_line *line = &t->lines[f->line];

	line->ns = end - MIN(end, f->frame.enter);
	line->bound = MAX(line->bound, bound);
	line->unfinished = unfinished;
	line->slow = !unfinished && !line->partial && !calls_kind_is_resumed(line->kind) &&
		     store_is_slow(store_function(t->output.walk->store, line->function), line->ns,
				   add_saturating(line->bound, line->bound));
}

/*
 * Prints lines until few are left: up to the first call that is open and not long, or else up to the last complete
 * call, which the next one may equal.
 */
static void flush_lines(struct timeline *t)
{
	size_t end = t->n_lines;
	struct open_frame *f;
	int32_t last;

	for (size_t i = 0; i < t->n_stack; i++) {
		const struct long_call *call;

		f = &t->stack[i];
		if (f->line == NONE)
			continue;
		call = find_long(t, f->number);
		if (!call) {
			end = (size_t)f->line;
			break;
		}
		set_end(t, f, call->end, call->bound, call->unfinished);
	}
	f = owner(t);
	last = f ? f->last : t->last;
	if (end == t->n_lines && last != NONE && t->n_lines - (size_t)last < LINES_MAX / 2)
		end = (size_t)last;
	for (size_t i = 0; i < end; i++)
		timeline_print_line(&t->output, &t->lines[i]);
	memmove(t->lines, t->lines + end, (t->n_lines - end) * sizeof(*t->lines));
	t->n_lines -= end;
	t->last = shift(t->last, end);
	for (size_t i = 0; i < t->n_stack; i++) {
		t->stack[i].line = shift(t->stack[i].line, end);
		t->stack[i].last = shift(t->stack[i].last, end);
	}
}

/* Gives the frame at this place of the stack its line, unless it is too deep. */
static int open_line(struct timeline *t, size_t index)
{
	struct open_frame *f = &t->stack[index], *above;
	struct timeline_line line = { .type = TIMELINE_CALL, .each = 1, .total = 1 };
	int32_t at = index ? t->stack[index - 1].at : NONE;
	int rc;

	above = at == NONE ? NULL : &t->stack[at];
	f->pending = false;
	t->n_pending--;
	f->at = at;
	f->level = above ? above->level + 1 : 0;
	if (f->level >= t->depth) {
		above->deeper++;
		return 0;
	}
	line.function = f->frame.function;
	line.level = f->level;
	line.kind = f->frame.kind;
	line.time = f->frame.enter;
	line.bound = f->bound;
	line.partial = f->partial;
	line.trigger = walk_is_trigger(t->output.walk, t->thread, &f->frame, (uint32_t)index);
	rc = add_line(t, &line);
	f->line = (int32_t)t->n_lines - 1;
	f->has_line = true;
	f->at = (int32_t)index;
	return rc;
}

static bool is_bare(const struct timeline *t, bool cut)
{
	return t->bare && (cut || t->inside <= t->output.options->bare_events);
}

static int enter(struct timeline *t, const struct store_event *e, bool cut)
{
	bool piece = e->frame.piece && t->n_stack, hidden = piece || is_bare(t, cut);
	struct open_frame f = {
		.frame = e->frame, .events = t->events, .bound = e->bound, .line = NONE, .last = NONE, .at = NONE
	};
	int rc = 0;

	if (array_reserve(t->stack, t->n_stack, &t->cap_stack) < 0)
		return -ENOMEM;
	f.number = t->number++;
	f.at = t->n_stack ? t->stack[t->n_stack - 1].at : NONE;
	if (t->n_stack)
		f.above = t->stack[t->n_stack - 1].above + !t->stack[t->n_stack - 1].hidden;
	f.frame.kind = e->kind;
	f.partial = e->kind == CALL_INFERRED;
	f.hidden = hidden;
	f.pending = !hidden;
	t->n_pending += f.pending;
	t->stack[t->n_stack++] = f;
	if (hidden)
		return 0;
	if (!cut && !calls_kind_is_resumed(e->kind)) {
		t->summary.calls++;
		if (t->skip) {
			t->skip--;
			return 0;
		}
	}
	if (t->first_reading || t->skip)
		return 0;
	if (t->n_pending == 1)
		return open_line(t, t->n_stack - 1);
	for (size_t i = 0; rc == 0 && i < t->n_stack; i++)
		if (t->stack[i].pending)
			rc = open_line(t, i);
	return rc;
}

static int add_long(struct timeline *t, const struct open_frame *f, const struct store_event *e, bool unfinished)
{
	if (t->events - f->events < LONG || f->above >= t->depth)
		return 0;
	if (array_reserve(t->longs, t->n_longs, &t->cap_longs) < 0)
		return -ENOMEM;
	t->longs[t->n_longs++] = (struct long_call){ f->number, e->time, e->bound, unfinished };
	return 0;
}

static int leave(struct timeline *t, const struct store_event *e, bool cut)
{
	bool unfinished = cut || e->kind == LEAVE_END || e->kind == LEAVE_GAP;
	struct open_frame f = t->stack[--t->n_stack], *above;
	int rc = 0;

	t->n_pending -= f.pending;
	if (t->first_reading)
		return add_long(t, &f, e, unfinished);
	if (f.pending || !f.has_line)
		return 0;
	if (f.deeper)
		rc = add_line(t, &(struct timeline_line){
				     .type = TIMELINE_DEEPER, .level = f.level + 1, .size = 1, .total = f.deeper });
	above = owner(t);
	if (f.line == NONE) {
		/* It was printed; nothing before it is kept. */
		*(above ? &above->last : &t->last) = NONE;
	} else if (rc == 0) {
		set_end(t, &f, e->time, e->bound, unfinished);
		complete(t, (size_t)f.line, above ? &above->last : &t->last);
	}
	return rc;
}

static int gap(struct timeline *t, const struct store_event *e)
{
	struct open_frame *f = owner(t);
	int rc;

	if (t->skip)
		return 0;
	t->summary.gaps++;
	t->summary.gaps_of[e->kind % STORE_GAP_KINDS]++;
	t->summary.gap_ns[e->kind % STORE_GAP_KINDS] += e->until - MIN(e->until, e->time);
	if (t->first_reading)
		return 0;
	rc = add_line(t, &(struct timeline_line){ .type = TIMELINE_GAP,
						  .kind = e->kind,
						  .level = f ? f->level + 1 : 0,
						  .time = e->time,
						  .ns = e->until - MIN(e->until, e->time),
						  .each = 1,
						  .total = 1 });
	if (rc == 0)
		complete(t, t->n_lines - 1, f ? &f->last : &t->last);
	return rc;
}

/* Adds the notes that were made before a time. */
static int add_notes(struct timeline *t, uint64_t until)
{
	const struct open_frame *f;
	const struct store_note *n;
	size_t at = t->note;
	int rc = 0;

	t->note_time = UINT64_MAX;
	while (rc == 0 && !t->first_reading && (n = walk_note(t->walk, t->thread, &at)) &&
	       (t->note_time = n->time) <= until) {
		t->note_time = UINT64_MAX;
		t->note = at;
		if (t->skip)
			continue;
		f = owner(t);
		rc = add_line(t, &(struct timeline_line){ .type = TIMELINE_NOTE,
							  .function = (uint32_t)at - 1,
							  .level = f ? f->level + 1 : 0,
							  .time = n->time,
							  .ns = n->until - n->time,
							  .unfinished = n->kind == STORE_NOTE_OPEN,
							  .size = 1,
							  .total = 1 });
	}
	return rc;
}

/* Adds an event of the trace unit. */
static int mark(struct timeline *t, const struct store_event *e)
{
	const struct open_frame *f = owner(t);

	if (t->first_reading || t->skip)
		return 0;
	return add_line(t, &(struct timeline_line){ .type = TIMELINE_MARK,
						    .kind = e->kind,
						    .level = f ? f->level + 1 : 0,
						    .time = e->time,
						    .size = 1,
						    .total = 1 });
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct timeline *t = user;
	int rc = 0;

	if (e->time >= t->note_time)
		rc = add_notes(t, e->time);
	if (rc < 0)
		return rc;
	t->events++;
	t->inside += !cut;
	t->summary.first = MIN(t->summary.first, e->time);
	t->summary.last = MAX(t->summary.last, e->time);
	if (e->type == STORE_ENTER)
		rc = enter(t, e, cut);
	else if (e->type == STORE_LEAVE)
		rc = leave(t, e, cut);
	else if (e->type == STORE_GAP)
		rc = gap(t, e);
	else if (e->kind > MARK_WAS_UNCERTAIN)
		rc = mark(t, e);
	else if (!t->skip)
		t->summary.uncertain += e->kind == MARK_UNCERTAIN;
	if (rc == 0 && t->n_lines >= LINES_MAX)
		flush_lines(t);
	return rc < 0 ? rc : t->output.out.error;
}

static int compare_longs(const void *a, const void *b)
{
	uint64_t x = ((const struct long_call *)a)->number, y = ((const struct long_call *)b)->number;

	return (x > y) - (x < y);
}

/* Reads the thread once; the first reading fills the summary and the list of long calls. */
static int read_thread(struct timeline *t, const struct export_walk *w, size_t index, bool first)
{
	const struct walk_sink sink = { on_event, t };
	int rc;

	t->thread = store_thread(w->store, index);
	t->first_reading = first;
	t->n_stack = t->n_pending = t->n_lines = 0;
	t->number = t->events = t->inside = t->note = t->note_time = 0;
	t->walk = w;
	t->last = NONE;
	t->summary = (struct timeline_summary){ .first = UINT64_MAX };
	if (first)
		t->n_longs = 0;
	rc = walk_thread(w, index, &sink);
	if (rc == 0)
		rc = add_notes(t, UINT64_MAX);
	if (rc == 0 && first && t->n_longs)
		qsort(t->longs, t->n_longs, sizeof(*t->longs), compare_longs);
	return rc;
}

/*
 * With the option tail, moves the beginning closer to the last calls, unless the events from there on are counted, and
 * sets how many calls to skip. The summary has the time of all, and the gaps among the others.
 */
static int find_tail(struct timeline *t, struct export_walk *w, size_t index)
{
	const struct store *s = w->store;
	const struct store_thread *thread = store_thread(s, index);
	uint64_t tail = t->output.options->tail, since = w->since, skip;
	int rc;

	t->skip = 0;
	if (tail && tail < UINT64_MAX / 4 && !t->bare)
		w->since = MAX(since, store_last_slices(s, thread->tid, w->until, 2 * tail + 64));
	rc = read_thread(t, w, index, true);
	if (rc == 0 && tail && t->summary.calls < tail && w->since > since) {
		w->since = since;
		rc = read_thread(t, w, index, true);
	}
	skip = tail ? t->summary.calls - MIN(t->summary.calls, tail) : 0;
	if (rc == 0 && skip && (t->summary.gaps || t->summary.uncertain)) {
		t->skip = skip;
		rc = read_thread(t, w, index, true);
	}
	if (w->since > since)
		t->summary.first = MAX(thread->first, since);
	t->skip = skip;
	return rc;
}

static int write_thread(struct timeline *t, size_t index, struct export_result *result)
{
	struct export_walk walk = *t->output.walk;
	struct timeline_summary summary;
	uint64_t skip;
	int rc = find_tail(t, &walk, index);

	if (rc < 0 || t->summary.first > t->summary.last)
		return rc;
	summary = t->summary;
	skip = t->skip;
	summary.calls -= skip;
	result->slices += summary.calls;
	result->gaps += summary.gaps;
	timeline_print_head(&t->output, index, &summary);
	t->skip = skip;
	rc = read_thread(t, &walk, index, false);
	for (size_t i = 0; rc == 0 && i < t->n_lines; i++)
		timeline_print_line(&t->output, &t->lines[i]);
	if (rc == 0)
		timeline_print_ending(&t->output, index);
	return rc;
}

static void timeline_done(struct timeline *t)
{
	out_done(&t->output.out);
	fit_done(&t->output.fit);
	free(t->stack);
	free(t->lines);
	free(t->longs);
}

int timeline_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	_cleanup_(timeline_done) struct timeline t = { 0 };
	uint64_t first = UINT64_MAX, last = 0;
	struct export_walk walk;
	char text[40];
	int rc = 0;

	walk_begin(&walk, s, o, ret);
	for (size_t i = 0; i < store_threads(s); i++) {
		if (!store_thread(s, i)->events)
			continue;
		first = MIN(first, store_thread(s, i)->first);
		last = MAX(last, store_thread(s, i)->last);
	}
	t.output = (struct timeline_output){ .out.fd = fd, .walk = &walk, .options = o, .start = first };
	t.output.fit.ascii = o->ascii;
	t.output.time_columns = snprintf(text, sizeof(text), "%.6f ms", (double)(last - MIN(first, last)) / 1e6);
	t.depth = MIN(o->depth ? o->depth : EXPORT_TREE_DEPTH, (unsigned)EXPORT_TREE_DEPTH_MAX);
	if (walk.tid < 0)
		timeline_print_levels(&t.output);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		const struct store_thread *thread = store_thread(s, i);

		t.bare = o->bare >= 0 && (uint64_t)o->bare == thread->tid;
		if (walk_wants(&walk, thread))
			rc = write_thread(&t, i, ret);
	}
	return rc < 0 ? rc : out_finish(&t.output.out);
}
