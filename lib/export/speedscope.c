/* SPDX-License-Identifier: MIT */
/*
 * speedscope's own evented format: JSON with one profile per thread, and an open and a close event per frame. Times
 * count from the earliest event, since numbers of JSON are exact up to 2^53 only. A gap is a frame of its own.
 */
#include <string.h>

#include "lib/base/json.h"
#include "lib/base/escape.h"
#include "lib/export/out.h"
#include "lib/export/walk.h"

struct speedscope_writer {
	struct out out;
	const struct export_walk *walk;
	struct export_result *result;
	uint64_t start;
	bool some; /* the profile has events already */
};

static void speedscope_writer_done(struct speedscope_writer *w)
{
	out_done(&w->out);
}

/* Writes an object; open: without its closing brace, so that more members can follow. */
static void put_object(struct buf *b, json_object *o, bool open)
{
	_cleanup_free_ char *text = json_text(o, JSON_PLAIN);

	if (text)
		buf_add(b, text, strlen(text) - open);
	else
		b->error = -ENOMEM;
	json_object_put(o);
}

static void put_frame(struct speedscope_writer *w, const char *name, const char *file, bool first)
{
	json_object *o = json_object_new_object();

	json_add_bytes(o, "name", name);
	if (file && *file)
		json_add_bytes(o, "file", file);
	if (!first)
		buf_printf(&w->out.buf, ",\n");
	put_object(&w->out.buf, o, false);
	out_flush_if_full(&w->out);
}

/* Writes the frame table: all functions in the order of the store, then the kinds of gaps. */
static void put_frames(struct speedscope_writer *w)
{
	const struct store *s = w->walk->store;
	char name[64];

	for (size_t i = 0; i < store_functions(s); i++)
		put_frame(w, store_function(s, i)->name, store_function(s, i)->image, i == 0);
	for (unsigned i = 0; i < STORE_GAP_KINDS; i++) {
		snprintf(name, sizeof(name), "[gap: %s]", calls_gap_str(i));
		put_frame(w, name, NULL, i == 0 && !store_functions(s));
	}
}

static void put_event(struct speedscope_writer *w, char type, uint64_t frame, uint64_t time)
{
	buf_printf(&w->out.buf, "%s{\"type\":\"%c\",\"frame\":%ju,\"at\":%ju}", w->some ? ",\n" : "", type,
		   (uintmax_t)frame, (uintmax_t)(time - w->start));
	w->some = true;
	out_flush_if_full(&w->out);
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct speedscope_writer *w = user;
	uint64_t gap = store_functions(w->walk->store) + e->kind % STORE_GAP_KINDS;

	(void)cut;
	switch (e->type) {
	case STORE_ENTER:
		put_event(w, 'O', e->frame.function, e->time);
		w->result->slices++;
		break;
	case STORE_LEAVE:
		put_event(w, 'C', e->frame.function, e->time);
		break;
	case STORE_GAP:
		put_event(w, 'O', gap, e->time);
		put_event(w, 'C', gap, MIN(MAX(e->until, e->time), w->walk->until));
		w->result->gaps++;
		break;
	case STORE_MARK:
		break;
	}
	return w->out.error;
}

static int put_profile(struct speedscope_writer *w, size_t index)
{
	const struct store_thread *t = store_thread(w->walk->store, index);
	const struct walk_sink sink = { on_event, w };
	json_object *o = json_object_new_object();
	char name[160];
	int rc;

	snprintf(name, sizeof(name), "%s %u", t->name, t->tid);
	json_add_str(o, "type", "evented");
	json_add_bytes(o, "name", name);
	json_add_str(o, "unit", "nanoseconds");
	json_add_u64(o, "startValue", MAX(t->first, w->result->since) - w->start);
	json_add_u64(o, "endValue", MIN(t->last, w->result->until) - w->start);
	put_object(&w->out.buf, o, true);
	buf_printf(&w->out.buf, ",\"events\":[\n");
	w->some = false;
	rc = walk_thread(w->walk, index, &sink);
	buf_printf(&w->out.buf, "]}");
	return rc;
}

static int speedscope_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	const char *program = store_meta(s, "program");
	json_object *head = json_object_new_object();
	struct export_walk walk;
	_cleanup_(speedscope_writer_done) struct speedscope_writer w = { .out.fd = fd, .walk = &walk, .result = ret };
	bool first = true;
	int rc = 0;

	walk_begin(&walk, s, o, ret);
	w.start = ret->since;
	json_add_str(head, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_add_str(head, "exporter", "csight");
	json_add_bytes(head, "name", program ? program : "");
	put_object(&w.out.buf, head, true);
	buf_printf(&w.out.buf, ",\"shared\":{\"frames\":[\n");
	put_frames(&w);
	buf_printf(&w.out.buf, "]},\n\"profiles\":[");
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		if (!walk_wants(&walk, store_thread(s, i)))
			continue;
		if (!first)
			buf_printf(&w.out.buf, ",\n");
		first = false;
		rc = put_profile(&w, i);
	}
	buf_printf(&w.out.buf, "]}\n");
	return rc < 0 ? rc : out_finish(&w.out);
}

const struct export_ops export_speedscope = { "speedscope", ".speedscope.json", "for https://www.speedscope.app",
					      speedscope_write };
