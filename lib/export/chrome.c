/* SPDX-License-Identifier: MIT */
/*
 * The Trace Event Format: JSON that chrome://tracing, Perfetto and many tools read. A frame has a begin and an end
 * event, a gap or mark an instant. Times are microseconds from the earliest event of the file, since readers keep
 * numbers as doubles.
 */
#include <string.h>

#include "lib/base/json.h"
#include "lib/export/out.h"
#include "lib/export/perfetto.h"
#include "lib/export/walk.h"

struct chrome_writer {
	struct out out;
	const struct export_walk *walk;
	struct export_result *result;
	const struct store_thread *thread;
	uint64_t start;
	uint64_t spans;      /* so far */
	uint64_t hidden;     /* calls of the thread that are too deep */
	uint32_t pid, track; /* of the thread */
	char **names;        /* by function: the members of its begin that are always the same; NULL: not made yet */
	bool some;           /* the file has events already */
};

static void chrome_writer_done(struct chrome_writer *w)
{
	for (size_t i = 0; w->names && i < store_functions(w->walk->store); i++)
		free(w->names[i]);
	free(w->names);
	out_done(&w->out);
}

/* Returns an object with a name and one argument, each if it has a text. */
static json_object *members(const char *name, const char *key, const char *text)
{
	json_object *o = json_object_new_object(), *args = text ? json_object_new_object() : NULL;

	if (name)
		json_add_bytes(o, "name", name);
	if (!text)
		return o;
	json_add_bytes(args, key, text);
	json_add(o, "args", args);
	return o;
}

/* Returns the JSON of o, which the caller frees, and releases o. NULL: memory ran out. */
static char *text_of(json_object *o)
{
	char *text = json_text(o, JSON_PLAIN);

	json_object_put(o);
	return text;
}

/* Writes an event with these members, the text of an object; NULL: none could be made. */
static void put_event(struct chrome_writer *w, char phase, uint64_t time, const char *text)
{
	struct buf *b = &w->out.buf;
	uint64_t at = time - MIN(time, w->start);

	buf_printf(b, "%s{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%ju.%03u", w->some ? ",\n" : "", phase,
		   (unsigned)w->pid, (unsigned)w->track, (uintmax_t)(at / 1000), (unsigned)(at % 1000));
	w->some = true;
	if (!text)
		b->error = -ENOMEM;
	else if (strcmp(text, "{}") == 0)
		buf_printf(b, "}");
	else
		buf_printf(b, ",%s", text + 1);
	out_flush_if_full(&w->out);
}

static void put_object(struct chrome_writer *w, char phase, uint64_t time, json_object *o)
{
	_cleanup_free_ char *text = text_of(o);

	put_event(w, phase, time, text);
}

/* Returns where the function was inlined, or where its source is; NULL: unknown. */
static char *source_of(const char *file, uint32_t line)
{
	char *where;

	return !file[0] || asprintf(&where, "%s:%u", file, line) < 0 ? NULL : where;
}

static void put_plain_begin(struct chrome_writer *w, const struct store_event *e)
{
	const struct store_function *f = store_function(w->walk->store, e->frame.function);
	_cleanup_free_ char *where = NULL;
	char **name = &w->names[e->frame.function];

	if (!*name) {
		where = source_of(f->file, f->line);
		*name = text_of(members(f->name, "source", where));
	}
	put_event(w, 'B', e->time, *name);
}

static void put_begin(struct chrome_writer *w, const struct store_event *e, bool cut)
{
	const char *function = store_function(w->walk->store, e->frame.function)->name, *why, *how;
	_cleanup_free_ char *where = NULL;
	const struct store_site *site;

	perfetto_reason(e, cut, &why, &how);
	if (!cut && e->frame.site != STORE_NO_SITE && e->kind != CALL_INFERRED) {
		site = store_site(w->walk->store, e->frame.site);
		where = source_of(site->file, site->line);
		put_object(w, 'B', e->time, members(function, "inlined at", where ? where : "?"));
	} else if (why) {
		put_object(w, 'B', e->time, members(function, why, how));
	} else {
		put_plain_begin(w, e);
	}
	w->result->slices++;
}

static void put_end(struct chrome_writer *w, const struct store_event *e, bool cut)
{
	uint64_t left_out = walk_left_out(e, &w->hidden);
	const char *why, *how;
	char number[24];

	perfetto_reason(e, cut, &why, &how);
	if (left_out) {
		snprintf(number, sizeof(number), "%ju", (uintmax_t)left_out);
		put_object(w, 'E', e->time, members(NULL, WALK_LEFT_OUT, number));
	} else if (why) {
		put_object(w, 'E', e->time, members(NULL, why, how));
	} else {
		put_event(w, 'E', e->time, "{}");
	}
}

/* Writes an instant of the thread, with its length in ns if that is not 0. */
static void put_instant(struct chrome_writer *w, uint64_t time, const char *name, uint64_t length)
{
	json_object *o = json_object_new_object(), *args = length ? json_object_new_object() : NULL;

	json_add_str(o, "s", "t");
	json_add_bytes(o, "name", name);
	if (length) {
		json_add_u64(args, "duration ns", length);
		json_add(o, "args", args);
	}
	put_object(w, 'i', time, o);
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct chrome_writer *w = user;
	char text[64];

	if (walk_is_too_deep(e, &w->hidden))
		return 0;
	switch (e->type) {
	case STORE_ENTER:
		put_begin(w, e, cut);
		break;
	case STORE_LEAVE:
		put_end(w, e, cut);
		break;
	case STORE_GAP:
		w->result->gaps++;
		snprintf(text, sizeof(text), "trace gap (%s)", calls_gap_str(e->kind));
		put_instant(w, e->time, text, e->until - e->time);
		break;
	case STORE_MARK:
		put_instant(w, e->time, calls_mark_str(e->kind), 0);
		break;
	}
	return w->out.error;
}

#define EXACT_MAX (INT64_C(1) << 53)

/* Notes are instants of the thread. Spans may cross calls, which only asynchronous events may. */
static void put_note(struct chrome_writer *w, const struct store_note *n)
{
	json_object *o = json_object_new_object(), *args = json_object_new_object();
	bool span = n->kind == STORE_NOTE_SPAN || n->kind == STORE_NOTE_OPEN;
	char label[WALK_NOTE_SIZE], number[24];

	json_add_bytes(o, "name", walk_note_text(n, label));
	json_add_str(o, "cat", span || n->kind == STORE_NOTE_ENDED ? "span" : "note");
	if (span)
		json_add_hex(o, "id", ++w->spans);
	else
		json_add_str(o, "s", "t");
	/* Readers keep numbers as doubles. */
	if (n->value > -EXACT_MAX && n->value < EXACT_MAX) {
		json_add_i64(args, "value", n->value);
	} else {
		snprintf(number, sizeof(number), "%jd", (intmax_t)n->value);
		json_add_str(args, "value", number);
	}
	if (span && n->time < w->start)
		json_add_str(args, "begins", "beyond this file");
	json_add(o, "args", args);
	put_object(w, span ? 'b' : 'i', n->time, o);
	if (n->kind != STORE_NOTE_SPAN)
		return;
	o = json_object_new_object();
	json_add_bytes(o, "name", n->label);
	json_add_str(o, "cat", "span");
	json_add_hex(o, "id", w->spans);
	put_object(w, 'e', n->until, o);
}

/* Counters belong to processes; the name of one of a thread says of which. */
static void put_counters(struct chrome_writer *w, const struct store_thread *t)
{
	const struct store_note *n;
	size_t at = 0;
	bool inside;

	while ((n = walk_sample(w->walk, t, &at, &inside))) {
		json_object *o, *args;
		char name[256];

		if (!inside)
			continue;
		o = json_object_new_object();
		args = json_object_new_object();
		snprintf(name, sizeof(name), t ? "%s, thread %u" : "%s", n->label, t ? t->tid : 0);
		json_add_bytes(o, "name", name);
		json_add_str(o, "cat", "counter");
		json_add_i64(args, "value", n->value);
		json_add(o, "args", args);
		put_object(w, 'C', n->time, o);
	}
}

static int put_thread(struct chrome_writer *w, size_t index)
{
	const struct store_process process = store_process_of(w->walk->store, index);
	const struct walk_sink sink = { on_event, w };
	const struct store_note *note;
	char trigger[WALK_TRIGGER_SIZE];
	const char *ending;
	uint64_t time;
	size_t at = 0;
	int rc;

	w->thread = store_thread(w->walk->store, index);
	w->track = walk_track(w->thread);
	w->hidden = 0;
	if (!w->some || process.pid != w->pid) {
		w->pid = process.pid;
		put_object(w, 'M', w->start, members("process_name", "name", process.program));
	}
	put_object(w, 'M', w->start, members("thread_name", "name", w->thread->name));
	rc = walk_thread(w->walk, index, &sink);
	while (rc == 0 && (note = walk_note(w->walk, w->thread, &at)))
		put_note(w, note);
	if (rc == 0)
		put_counters(w, w->thread);
	if (rc == 0 && walk_trigger(w->walk, w->thread, &time, trigger))
		put_instant(w, time, trigger, 0);
	ending = walk_ending(w->walk, w->thread);
	if (rc == 0 && ending)
		put_instant(w, w->thread->last, ending, 0);
	return rc;
}

/* Begins the file; its last member is the array of events, which stays open. */
static void put_header(struct chrome_writer *w)
{
	json_object *head = json_object_new_object(), *other = json_object_new_object();
	const char *program = store_meta(w->walk->store, "program");
	_cleanup_free_ char *text = NULL;

	json_add_str(other, "exporter", "csight");
	json_add_bytes(other, "program", program ? program : "");
	json_add_hex(other, "start ns", w->start);
	json_add_str(head, "displayTimeUnit", "ns");
	json_add(head, "otherData", other);
	text = text_of(head);
	if (text)
		buf_add(&w->out.buf, text, strlen(text) - 1);
	else
		w->out.buf.error = -ENOMEM;
	buf_printf(&w->out.buf, ",\"traceEvents\":[\n");
}

static int chrome_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct export_walk walk;
	_cleanup_(chrome_writer_done) struct chrome_writer w = { .out.fd = fd, .walk = &walk, .result = ret };
	int rc = 0;

	walk_begin(&walk, s, o, ret);
	w.names = calloc(store_functions(s) + 1, sizeof(*w.names));
	if (!w.names)
		return -ENOMEM;
	w.start = ret->since;
	put_header(&w);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++)
		if (walk_wants(&walk, store_thread(s, i)))
			rc = put_thread(&w, i);
	if (rc == 0 && walk.tid < 0 && w.thread)
		put_counters(&w, NULL);
	buf_printf(&w.out.buf, "]}\n");
	return rc < 0 ? rc : out_finish(&w.out);
}

const struct export_ops export_chrome = { "chrome", ".json",
					  "JSON of trace events, for chrome://tracing and other tools", chrome_write };
