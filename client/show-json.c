/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "client/named-store.h"
#include "client/show-json.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/export/walk.h"

enum pass { PASS_COUNT, PASS_CALLS, PASS_GAPS };

struct json_frame {
	uint64_t number; /* among the calls that begin within the selection; 0: before it */
	uint32_t level;
	bool hidden; /* a part of the function around it, or left out by the option bare */
};

struct json_writer {
	const struct store *store;
	const struct export_options *options;
	size_t thread;
	enum pass pass;
	bool bare, some;
	uint64_t calls, skip; /* begun so far; of them left out by the option tail */
	uint64_t inside;      /* events of the selection so far */
	struct json_frame *stack;
	size_t n_stack, cap_stack;
};

/* Prints a member of a list. */
static int print_member(struct json_writer *w, json_object *o)
{
	_cleanup_free_ char *text = json_text(o, JSON_PLAIN);

	json_object_put(o);
	if (!text)
		return -ENOMEM;
	printf("%s\n%s", w->some ? "," : "", text);
	w->some = true;
	return ferror(stdout) ? -EPIPE : 0;
}

static int print_json_call(struct json_writer *w, const struct store_event *e, const struct json_frame *f, bool cut)
{
	const struct store_function *function = store_function(w->store, e->frame.function);
	const struct store_site *site = store_site(w->store, e->frame.site);
	uint64_t ns = e->time - MIN(e->time, e->frame.enter);
	uint64_t bound = store_duration_bound(w->store, w->thread, e->frame.enter, e->time);
	bool whole = !cut && store_is_whole(e);
	json_object *o = json_object_new_object();

	json_add_bytes(o, "name", function->name);
	json_add_bytes(o, "image", function->image);
	json_add_u64(o, "thread", store_thread(w->store, w->thread)->tid);
	json_add_u64(o, "time", e->frame.enter);
	json_add_u64(o, "duration", ns);
	if (bound)
		json_add_u64(o, "bound", bound);
	json_add_u64(o, "instructions", e->instructions - MIN(e->instructions, e->frame.instructions));
	json_add_u64(o, "depth", f->level);
	json_add_bool(o, "whole", whole);
	if (whole && store_is_slow(function, ns, bound))
		json_add_bool(o, "slow", true);
	json_add_str(o, "entered", calls_kind_str(e->frame.kind));
	json_add_str(o, "left", calls_leave_str(e->kind));
	if (site)
		json_add_bool(o, "inlined", true);
	if (site && site->file[0]) {
		json_add_bytes(o, "call_file", site->file);
		json_add_u64(o, "call_line", site->line);
	}
	return print_member(w, o);
}

static int print_json_gap(struct json_writer *w, const struct store_event *e)
{
	json_object *o = json_object_new_object();

	json_add_u64(o, "thread", store_thread(w->store, w->thread)->tid);
	json_add_u64(o, "time", e->time);
	json_add_u64(o, "duration", e->until - MIN(e->until, e->time));
	json_add_str(o, "gap", calls_gap_str(e->kind));
	return print_member(w, o);
}

static int json_enter(struct json_writer *w, const struct store_event *e, bool cut)
{
	const struct json_frame *above = w->n_stack ? &w->stack[w->n_stack - 1] : NULL;
	bool bare = w->bare && (cut || w->inside <= w->options->bare_events);
	struct json_frame f = { .hidden = (e->frame.piece && above) || bare };

	if (array_reserve(w->stack, w->n_stack, &w->cap_stack) < 0)
		return -ENOMEM;
	above = w->n_stack ? &w->stack[w->n_stack - 1] : NULL;
	f.level = above ? above->level + !above->hidden : 0;
	if (!f.hidden && !cut) {
		w->calls += !calls_kind_is_resumed(e->kind);
		f.number = w->calls;
	}
	w->stack[w->n_stack++] = f;
	return 0;
}

static int json_leave(struct json_writer *w, const struct store_event *e, bool cut)
{
	const struct json_frame *f = &w->stack[--w->n_stack];

	if (w->pass != PASS_CALLS || f->hidden || (w->options->depth && f->level >= w->options->depth))
		return 0;
	/* Callers of the last calls are printed, too. */
	if (w->skip && f->number <= w->skip && w->calls <= w->skip)
		return 0;
	return print_json_call(w, e, f, cut);
}

static int json_event(void *user, const struct store_event *e, bool cut)
{
	struct json_writer *w = user;

	w->inside += !cut;
	if (e->type == STORE_ENTER)
		return json_enter(w, e, cut);
	if (e->type == STORE_LEAVE)
		return json_leave(w, e, cut);
	return e->type == STORE_GAP && w->pass == PASS_GAPS ? print_json_gap(w, e) : 0;
}

/* Reads all selected threads once. */
static int json_pass(struct json_writer *w, const struct export_walk *walk, size_t thread, enum pass pass)
{
	const struct walk_sink sink = { json_event, w };

	w->thread = thread;
	w->pass = pass;
	w->bare = w->options->bare >= 0 && (uint64_t)w->options->bare == store_thread(w->store, thread)->tid;
	w->calls = w->inside = w->n_stack = 0;
	return walk_thread(walk, thread, &sink);
}

static int print_calls(struct json_writer *w, const struct export_walk *walk)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < store_threads(w->store); i++) {
		if (!walk_wants(walk, store_thread(w->store, i)))
			continue;
		w->skip = 0;
		if (w->options->tail) {
			rc = json_pass(w, walk, i, PASS_COUNT);
			w->skip = w->calls - MIN(w->calls, w->options->tail);
		}
		if (rc == 0)
			rc = json_pass(w, walk, i, PASS_CALLS);
	}
	return rc;
}

static int print_gaps(struct json_writer *w, const struct export_walk *walk)
{
	int rc = 0;

	w->some = false;
	for (size_t i = 0; rc == 0 && i < store_threads(w->store); i++)
		if (walk_wants(walk, store_thread(w->store, i)) && store_thread(w->store, i)->gaps)
			rc = json_pass(w, walk, i, PASS_GAPS);
	return rc;
}

/*
 * Prints the notes of the selected threads and times. A note of unknown time belongs to every selection of times, and
 * has no "time".
 */
static int print_notes(struct json_writer *w, const struct export_walk *walk)
{
	const struct store_note *n;
	int rc = 0;

	w->some = false;
	for (size_t i = 0; rc == 0 && (n = store_note(w->store, i)); i++) {
		json_object *o;

		if ((walk->tid >= 0 && (uint64_t)walk->tid != n->tid) ||
		    (n->time && (n->time > walk->until || n->until < walk->since)))
			continue;
		o = json_object_new_object();
		json_add_u64(o, "thread", n->tid);
		json_add_str(o, "kind", store_note_kind_str(n->kind));
		json_add_bytes(o, "label", n->label);
		if (n->time)
			json_add_u64(o, "time", n->time);
		if (n->kind == STORE_NOTE_SPAN)
			json_add_u64(o, "duration", n->until - n->time);
		if (n->kind != STORE_NOTE_OPEN)
			json_add_i64(o, "value", n->value);
		rc = print_member(w, o);
	}
	return rc;
}

/* Adds the trigger that took the snapshot, with the call that it is about. */
static void add_trigger(const struct store *s, json_object *to)
{
	json_object *o, *call;
	struct store_trigger t;
	struct store_found_call c;

	if (!store_trigger(s, &t))
		return;
	o = json_object_new_object();
	json_add_bytes(o, "condition", t.condition);
	if (t.tid)
		json_add_u64(o, "thread", t.tid);
	if (t.time)
		json_add_u64(o, "time", t.time);
	if (t.timed)
		json_add_u64(o, "value", t.value);
	if (store_trigger_call(s, &c) == 1) {
		call = json_object_new_object();
		json_add_bytes(call, "name", store_function(s, c.frame.function)->name);
		json_add_u64(call, "time", c.frame.enter);
		json_add_u64(call, "duration", c.ns);
		if (c.bound)
			json_add_u64(call, "bound", c.bound);
		json_add_u64(call, "depth", c.depth);
		json_add_bool(call, "whole", c.whole);
		json_add(o, "call", call);
	}
	json_add(to, "trigger", o);
}

static int print_head(const struct store *s, const struct csight_object *snapshot)
{
	const char *description = snapshot ? csight_json(snapshot) : NULL;
	_cleanup_free_ char *times = NULL;
	_cleanup_json_ json_object *o = json_object_new_object();

	named_store_add_times(s, o);
	add_trigger(s, o);
	times = json_text(o, JSON_PLAIN);
	if (!times || (snapshot && !description))
		return -ENOMEM;
	printf("{");
	if (description)
		printf("\"snapshot\":%s,", description);
	/* The members of an object without its braces. */
	if (strlen(times) > 2)
		printf("%.*s,", (int)strlen(times) - 2, times + 1);
	return 0;
}

int show_json(const struct store *s, const struct export_options *o, const struct csight_object *snapshot)
{
	struct json_writer w = { .store = s, .options = o };
	struct export_result result;
	struct export_walk walk;
	int rc = print_head(s, snapshot);

	walk_begin(&walk, s, o, &result);
	if (rc == 0) {
		printf("\"calls\":[");
		rc = print_calls(&w, &walk);
	}
	if (rc == 0) {
		printf("],\n\"gaps\":[");
		rc = print_gaps(&w, &walk);
	}
	if (rc == 0) {
		printf("],\n\"notes\":[");
		rc = print_notes(&w, &walk);
	}
	if (rc == 0)
		printf("]}\n");
	free(w.stack);
	return rc;
}
