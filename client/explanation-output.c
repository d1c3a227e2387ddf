/* SPDX-License-Identifier: MIT */
#include "client/explanation-output.h"

#include <string.h>

#include "client/format.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/util.h"

enum { INDENT = 21, ROOM_MIN = 24, PATH_SHOWN = 12 };

/* Returns the number of columns to the right of the figures. */
static size_t room_of(const struct explanation_output *o)
{
	return MAX(o->width, (size_t)INDENT + ROOM_MIN) - INDENT;
}

/* Shortens a name so that a mark behind it fits in its line. */
static const char *fit_name(const struct explanation_output *o, const char *name)
{
	return fit_text(o->fit, esc(name), room_of(o) - strlen(" >"));
}

const char *explanation_output_value(const struct explanation_output *o, uint64_t value)
{
	return o->measure == MEASURE_INSTRUCTIONS ? format_count(value) : format_duration_within(value, o->bound);
}

static uint64_t per_call(const struct explanation_output *o, uint64_t value)
{
	return (value + o->calls / 2) / o->calls;
}

static void add_name(struct buf *b, const struct explanation_output *o, uint32_t node)
{
	const char *name = names_short(o->names, explanation_function(o->explanation, node)->name);

	buf_printf(b, "%s", fit_name(o, name));
}

/* Adds a number of calls, divided by the number of calls of the function that is explained. */
static void add_times(struct buf *b, const struct explanation_output *o, uint64_t calls)
{
	if (calls % o->calls)
		buf_printf(b, "%.1f", (double)calls / (double)o->calls);
	else
		buf_printf(b, "%s", format_count(calls / o->calls));
}

/* Adds "3.0 ms instead of 2 us". */
static void add_values(struct buf *b, const struct explanation_output *o, const struct explained_line *line)
{
	const char *unit = o->measure == MEASURE_INSTRUCTIONS ? " instructions" : "";

	buf_printf(b, "%s%s instead of %s", explanation_output_value(o, per_call(o, line->value[CALL_TREE_SLOW])), unit,
		   explanation_output_value(o, per_call(o, line->value[CALL_TREE_TYPICAL])));
}

static void add_calls(struct buf *b, const struct explanation_output *o, const struct explained_line *line)
{
	buf_printf(b, " ran ");
	add_times(b, o, line->calls[CALL_TREE_SLOW]);
	buf_printf(b, " times instead of ");
	add_times(b, o, line->calls[CALL_TREE_TYPICAL]);
}

static void add_verb(struct buf *b, const struct explanation_output *o, const struct explained_line *line)
{
	switch (line->kind) {
	case EXPLAINED_ONLY:
		buf_printf(b, " ran only here");
		if (line->calls[CALL_TREE_SLOW] != o->calls) {
			buf_printf(b, ", ");
			add_times(b, o, line->calls[CALL_TREE_SLOW]);
			buf_printf(b, " times");
		}
		break;
	case EXPLAINED_MISSING:
		buf_printf(b, " did not run here");
		break;
	case EXPLAINED_MORE:
	case EXPLAINED_FEWER:
		add_calls(b, o, line);
		break;
	case EXPLAINED_SELF:
		buf_printf(b, ", its own code: ");
		add_values(b, o, line);
		break;
	case EXPLAINED_CUT:
		buf_printf(b, ", calls on too many paths beneath it: ");
		add_values(b, o, line);
		break;
	case EXPLAINED_WAIT:
		buf_printf(b, " waited: ");
		add_values(b, o, line);
		break;
	default:
		buf_printf(b, " took ");
		add_values(b, o, line);
	}
}

/* Adds who ended the wait: a guess. */
static void add_waker(struct buf *b, const struct explanation_output *o)
{
	const struct explanation *e = o->explanation;
	const struct store *s = e->tree->list->store;
	const char *name = names_short(o->names, store_function(s, e->waker.function)->name);

	buf_printf(b, ", perhaps until %s in thread %u woke it", fit_name(o, name),
		   store_thread(s, e->waker.thread)->tid);
}

/* Adds where a line waited: "in pthread_mutex_lock (futex)". */
static void add_syscall(struct buf *b, const struct explanation_output *o, const struct explained_line *line)
{
	uint32_t called = explanation_waited_in(o->explanation, line);

	if (line->syscall == CALL_TREE_NONE)
		return;
	buf_printf(b, line->kind == EXPLAINED_WAIT ? ", in " : ", waiting in ");
	add_name(b, o, called == CALL_TREE_NONE ? line->syscall : called);
	if (called == CALL_TREE_NONE)
		return;
	buf_printf(b, " (");
	add_name(b, o, line->syscall);
	buf_printf(b, ")");
}

/* Makes the sentence of a line. */
static void add_sentence(struct buf *b, const struct explanation_output *o, const struct explained_line *line)
{
	if (line->kind == EXPLAINED_OTHER) {
		buf_printf(b, "other: %s", format_plural(line->places, "smaller difference"));
		return;
	}
	if (line->kind == EXPLAINED_PREEMPTED) {
		buf_printf(b, "preempted: it could run, but had no CPU, for ");
		add_values(b, o, line);
		return;
	}
	add_name(b, o, line->named);
	add_verb(b, o, line);
	add_syscall(b, o, line);
	if (line == o->explanation->woken)
		add_waker(b, o);
	if (line->deepest != line->node && line->kind != EXPLAINED_WAIT) {
		buf_printf(b, ", mostly in ");
		add_name(b, o, line->deepest);
	}
	if (line->caller != CALL_TREE_NONE && line->caller != line->named && line->caller != CALL_TREE_ROOT) {
		buf_printf(b, ", called by ");
		add_name(b, o, line->caller);
	}
}

/* Fills ret with the nodes from beneath the root to the node of a line, the root alone if it is that; at most n. */
static size_t path_of(const struct explanation *e, const struct explained_line *line, uint32_t *ret, size_t n)
{
	const struct call_node *nodes = e->tree->nodes;
	uint32_t at = line->deepest, level;

	if (at == CALL_TREE_NONE)
		return 0;
	for (level = nodes[at].level; level > n; level--)
		at = nodes[at].parent;
	n = MAX(level, 1u);
	for (size_t i = n; i-- > 0; at = nodes[at].parent)
		ret[i] = at;
	return n;
}

/* Adds the path and the source line of the function that is named. */
static void add_path(struct buf *b, const struct explanation_output *o, const struct explained_line *line)
{
	uint32_t path[CALL_TREE_DEPTH_MAX + 1];
	size_t n = path_of(o->explanation, line, path, ELEMENTS(path));
	const struct store_function *f = explanation_function(o->explanation, line->named);
	const char *slash = strrchr(f->file, '/');

	for (size_t i = 0; i < n; i++) {
		if (n > PATH_SHOWN && i == PATH_SHOWN / 2) {
			buf_printf(b, " > ...");
			i += n - PATH_SHOWN;
		}
		if (i)
			buf_printf(b, " > ");
		add_name(b, o, path[i]);
	}
	if (line->places > 1)
		buf_printf(b, ", and %s", format_plural(line->places - 1, "other path"));
	if (f->file[0] && f->line)
		buf_printf(b, " (%s:%u)", fit_text(o->fit, esc(slash ? slash + 1 : f->file), room_of(o) / 2), f->line);
}

/* Returns the size of the first word; a mark of a path stays with the name before it. */
static size_t word_size(const char *text)
{
	size_t n = strcspn(text, " ");

	return strncmp(text + n, " > ", 3) == 0 ? n + 2 : n;
}

/*
 * Prints a text in lines of at most room columns, from the column INDENT on. indented: print the indentation of the
 * first line, too.
 */
static void print_wrapped(FILE *to, const char *text, size_t room, bool indented)
{
	size_t at = 0;

	while (*text) {
		size_t n = word_size(text), width;
		_cleanup_free_ char *word = strndup(text, n);

		if (!word)
			return;
		width = fit_width(word);
		if (at && at + 1 + width > room) {
			fputc('\n', to);
			at = 0;
			indented = true;
		}
		fprintf(to, "%*s%s", at ? 1 : indented ? INDENT : 0, "", word);
		at += (at != 0) + width;
		text += n;
		text += *text == ' ';
	}
	if (at)
		fputc('\n', to);
}

static void print_line(const struct explanation_output *o, const struct explained_line *line, FILE *to)
{
	const struct explanation *e = o->explanation;
	double share = e->difference ? 100.0 * (double)line->difference / (double)e->difference : 0;
	_cleanup_buf_ struct buf sentence = { 0 }, path = { 0 };
	uint64_t value =
	    per_call(o, line->difference < 0 ? 0 - (uint64_t)line->difference : (uint64_t)line->difference);
	char text[64];

	add_sentence(&sentence, o, line);
	buf_u8(&sentence, 0);
	if (line->kind < EXPLAINED_PREEMPTED)
		add_path(&path, o, line);
	buf_u8(&path, 0);
	if (buf_error(&sentence) || buf_error(&path))
		return;
	snprintf(text, sizeof(text), "%c%s", line->difference < 0 ? '-' : '+', explanation_output_value(o, value));
	fprintf(to, "%*.*f %%  %10s  ", 5, share > -9.95 && share < 9.95 ? 1 : 0, share, text);
	print_wrapped(to, (const char *)sentence.data, room_of(o), false);
	print_wrapped(to, (const char *)path.data, room_of(o), true);
}

void explanation_output_text(const struct explanation_output *o, FILE *to)
{
	fprintf(to, "%s  SHARE  %10s  %s%s\n", format_style(to, STYLE_HEADING), "DIFFERENCE", "WHAT",
		format_style(to, STYLE_PLAIN));
	for (size_t i = 0; i < o->explanation->n; i++)
		print_line(o, &o->explanation->lines[i], to);
}

static void add_function(json_object *to, const char *key, const struct explanation *e, uint32_t node)
{
	const struct store_function *f = node == CALL_TREE_NONE ? NULL : explanation_function(e, node);

	if (f)
		json_add_bytes(to, key, f->name);
}

/* Returns the functions from the node of a line to the deepest one as an array, without library code. */
static json_object *chain_json(const struct explanation *e, const struct explained_line *line)
{
	uint32_t path[CALL_TREE_DEPTH_MAX + 1];
	size_t n = path_of(e, line, path, ELEMENTS(path));
	json_object *chain = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		if (e->tree->nodes[path[i]].level >= e->tree->nodes[line->node].level &&
		    !e->is_library[e->tree->nodes[path[i]].function])
			json_array_add_bytes(chain, explanation_function(e, path[i])->name);
	return chain;
}

static json_object *path_json(const struct explanation *e, const struct explained_line *line)
{
	uint32_t nodes[CALL_TREE_DEPTH_MAX + 1];
	size_t n = path_of(e, line, nodes, ELEMENTS(nodes));
	json_object *path = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		json_array_add_bytes(path, explanation_function(e, nodes[i])->name);
	return path;
}

static json_object *waker_json(const struct explanation *e)
{
	const struct store *s = e->tree->list->store;
	json_object *to = json_object_new_object();

	json_add_bytes(to, "function", store_function(s, e->waker.function)->name);
	json_add_u64(to, "thread", store_thread(s, e->waker.thread)->tid);
	json_add_u64(to, "time", e->waker.time);
	return to;
}

static json_object *line_json(const struct explanation_output *o, const struct explained_line *line)
{
	const struct explanation *e = o->explanation;
	json_object *to = json_object_new_object();
	const struct store_function *f;

	json_add_str(to, "kind", explanation_kind_str(line->kind));
	json_add_i64(to, "difference", line->difference);
	if (e->difference)
		json_add_double(to, "share", (double)line->difference / (double)e->difference);
	json_add_u64(to, "places", line->places);
	if (line->kind >= EXPLAINED_PREEMPTED)
		return to;
	f = explanation_function(e, line->named);
	json_add_bytes(to, "function", f->name);
	if (f->file[0]) {
		json_add_bytes(to, "file", f->file);
		json_add_u64(to, "line", f->line);
	}
	if (f->kind == REGION_INLINED)
		json_add_bool(to, "inlined", true);
	json_add_bool(to, "library",
		      line->named != CALL_TREE_ROOT && e->is_library[e->tree->nodes[line->named].function]);
	add_function(to, "caller", e, line->caller);
	add_function(to, "system_call", e, line->syscall);
	add_function(to, "waited_in", e, explanation_waited_in(e, line));
	json_add_i64(to, "wait", line->wait);
	if (line == e->woken)
		json_add(to, "waker", waker_json(e));
	json_add_u64(to, "slow", line->value[CALL_TREE_SLOW]);
	json_add_u64(to, "typical", line->value[CALL_TREE_TYPICAL]);
	json_add_u64(to, "slow_calls", line->calls[CALL_TREE_SLOW]);
	json_add_u64(to, "typical_calls", line->calls[CALL_TREE_TYPICAL]);
	json_add(to, "chain", chain_json(e, line));
	json_add(to, "path", path_json(e, line));
	return to;
}

json_object *explanation_output_json(const struct explanation_output *o)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < o->explanation->n; i++)
		json_array_add(list, line_json(o, &o->explanation->lines[i]));
	return list;
}
