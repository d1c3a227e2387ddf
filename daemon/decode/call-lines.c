/* SPDX-License-Identifier: MIT */
#include "daemon/decode/call-lines.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/duration.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"
#include "lib/export/names.h"
#include "lib/store/store.h"

enum { INDENT_MAX = 60, FLUSH_AT = 64 << 10 };

/* How a function is written, made when it is first needed. */
struct call_line_name {
	char *text;  /* the escaped name; JSON: the first members of an object, without the bracket at its end */
	bool wanted; /* it matches the option function */
};

void call_lines_begin(struct call_lines *l, int fd, const struct call_lines_options *options)
{
	*l = (struct call_lines){ .options = *options, .out.fd = fd };
	if (!options->json)
		buf_printf(&l->out.buf, "%12s %8s %10s %12s  %s\n", "TIME", "THREAD", "DURATION", "INSTRUCTIONS",
			   "FUNCTION");
}

static char *json_name(const struct region *f, const char *name)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	char *text;

	json_add_bytes(o, "name", name);
	json_add_bytes(o, "image", f->image);
	text = json_text(o, JSON_PLAIN);
	if (text)
		text[strlen(text) - 1] = '\0';
	return text;
}

static char *escaped_name(const char *name)
{
	size_t size = 4 * strlen(name) + 1;
	char *to = malloc(size);

	return to ? escape_text(name, to, size) : NULL;
}

/* The name without the suffixes of clones, and without what makes it long, unless it is to be full. */
static int make_name(const struct call_lines_options *o, const struct region *f, struct call_line_name *to)
{
	_cleanup_free_ char *base = o->full_names ? strdup(f->name) : strndup(f->name, store_base_name(f->name));
	_cleanup_free_ char *plain = base ? names_shorten(base, o->full_names ? NAMES_FULL : NAMES_PLAIN) : NULL;

	if (!plain)
		return -ENOMEM;
	to->wanted = !o->function || fnmatch(o->function, plain, 0) == 0 || fnmatch(o->function, f->name, 0) == 0;
	to->text = o->json ? json_name(f, base) : escaped_name(plain);
	return to->text ? 0 : -ENOMEM;
}

static int find_name(struct call_lines *l, const struct region *f, const struct call_line_name **ret)
{
	uint32_t *number;
	int rc = hash_find(&l->numbers, (uintptr_t)f, 0, &number);

	if (rc < 0)
		return rc;
	if (rc == 1) {
		if (array_reserve(l->names, l->n_names, &l->names_room) < 0)
			return -ENOMEM;
		*number = (uint32_t)l->n_names;
		l->names[l->n_names++] = (struct call_line_name){ 0 };
		rc = make_name(&l->options, f, &l->names[*number]);
	}
	*ret = &l->names[*number];
	return MIN(rc, 0);
}

/* Returns the sum of two errors of a time; 0: unknown. */
static const char *text_suffix(const struct call_line_frame *f, enum leave_kind how)
{
	if (how == LEAVE_UNWOUND)
		return " (unwound)";
	if (f->kind == CALL_SYSCALL)
		return " (system call)";
	if (f->kind == CALL_SIGNAL)
		return " (signal)";
	if (calls_kind_is_tail(f->kind))
		return " (tail call)";
	return f->inlined ? " (inlined)" : "";
}

static double seconds_since(const struct call_lines *l, uint64_t time)
{
	return (double)(time - MIN(time, l->begin)) / 1e9;
}

static void write_text(struct call_lines_thread *t, const struct call_line_frame *f, const struct call_event *e,
		       const char *name)
{
	struct call_lines *l = t->lines;
	char time[DURATION_SIZE], instructions[24];

	duration_text(e->time - MIN(e->time, f->time), add_saturating(f->bound, e->bound), time);
	snprintf(instructions, sizeof(instructions), "%" PRIu64,
		 e->instructions - MIN(e->instructions, f->instructions));
	buf_printf(&l->out.buf, "%12.6f %8u %10s %12s  %*s%s%s%s%s\n", seconds_since(l, f->time), t->tid, time,
		   instructions, (int)MIN(2 * t->n, (size_t)INDENT_MAX), "", name,
		   text_suffix(f, (enum leave_kind)e->kind), f->began_before ? " (began earlier)" : "",
		   f->uncertain ? " (uncertain)" : "");
}

static void write_json(struct call_lines_thread *t, const struct call_line_frame *f, const struct call_event *e,
		       const char *name)
{
	uint64_t bound = add_saturating(f->bound, e->bound);
	struct buf *b = &t->lines->out.buf;

	buf_printf(b, "%s,\"thread\":%u,\"time\":%" PRIu64 ",\"duration\":%" PRIu64, name, t->tid, f->time,
		   e->time - MIN(e->time, f->time));
	if (bound)
		buf_printf(b, ",\"bound\":%" PRIu64, bound);
	buf_printf(b,
		   ",\"instructions\":%" PRIu64 ",\"depth\":%zu,\"whole\":%s,\"entered\":\"%s\",\"left\":\"%s\"%s%s}\n",
		   e->instructions - MIN(e->instructions, f->instructions), t->n, f->began_before ? "false" : "true",
		   calls_kind_str(f->kind), calls_leave_str(e->kind), f->inlined ? ",\"inlined\":true" : "",
		   f->uncertain ? ",\"uncertain\":true" : "");
}

/* True for what is no call of a function, or a piece of one that was written as a call before. */
static bool is_apart(const struct call_line_frame *f)
{
	return f->function->kind == REGION_WAITING || f->function->kind == REGION_PREEMPTED ||
	       (f->inlined && calls_kind_is_resumed(f->kind));
}

/* Writes a call that has returned. A frame that a gap, or the end, cuts has not. */
static int write_call(struct call_lines_thread *t, const struct call_line_frame *f, const struct call_event *e)
{
	struct call_lines *l = t->lines;
	const struct call_line_name *name;
	int rc;

	if (e->kind == LEAVE_GAP || e->kind == LEAVE_END || e->kind == LEAVE_SWITCH || is_apart(f))
		return 0;
	rc = find_name(l, f->function, &name);
	if (rc < 0)
		return rc;
	if (!name->wanted || e->time - MIN(e->time, f->time) < l->options.longer ||
	    (l->options.depth && t->n >= l->options.depth)) {
		l->left_out++;
		return 0;
	}
	l->written++;
	if (l->options.json)
		write_json(t, f, e, name->text);
	else
		write_text(t, f, e, name->text);
	return l->out.buf.size >= FLUSH_AT ? call_lines_flush(l) : buf_error(&l->out.buf);
}

static int write_gap(struct call_lines_thread *t, const struct call_event *e)
{
	struct call_lines *l = t->lines;

	if (l->options.json)
		buf_printf(&l->out.buf, "{\"gap\":\"%s\",\"thread\":%u,\"time\":%" PRIu64 "}\n", calls_gap_str(e->kind),
			   t->tid, e->time);
	else
		buf_printf(&l->out.buf, "%12.6f %8u %10s %12s  gap: %s\n", seconds_since(l, e->time), t->tid, "", "",
			   calls_gap_str(e->kind));
	return buf_error(&l->out.buf);
}

static int push_frame(struct call_lines_thread *t, const struct call_event *e)
{
	/* A frame that is found when control returns into it has been open since the segment began, or longer. */
	bool before = e->type == CALL_EVENT_ROOT || e->kind == CALL_INFERRED;

	if (array_reserve(t->stack, t->n, &t->room) < 0)
		return -ENOMEM;
	t->stack[t->n++] = (struct call_line_frame){ .function = e->function,
						     .time = before ? t->time : e->time,
						     .instructions = before ? t->instructions : e->instructions,
						     .bound = e->bound,
						     .kind = e->kind,
						     .inlined = e->inlined != NULL,
						     .began_before = before,
						     .uncertain = t->uncertain };
	return 0;
}

static int pop_frame(struct call_lines_thread *t, const struct call_event *e)
{
	struct call_line_frame frame;

	if (!t->n)
		return 0;
	frame = t->stack[--t->n];
	frame.uncertain = frame.uncertain || t->uncertain;
	return write_call(t, &frame, e);
}

int call_lines_event(void *user, const struct call_event *e)
{
	struct call_lines_thread *t = user;

	if (!t->lines->begun) {
		t->lines->begin = e->time;
		t->lines->begun = e->time != 0;
	}
	switch (e->type) {
	case CALL_EVENT_ENTER:
	case CALL_EVENT_ROOT:
		return push_frame(t, e);
	case CALL_EVENT_LEAVE:
		return pop_frame(t, e);
	case CALL_EVENT_SEGMENT:
		t->n = 0;
		t->time = e->time;
		t->instructions = e->instructions;
		t->uncertain = false;
		return 0;
	case CALL_EVENT_GAP:
		return write_gap(t, e);
	case CALL_EVENT_MARK:
		t->uncertain = e->kind == MARK_UNCERTAIN || (t->uncertain && e->kind != MARK_CERTAIN);
		return 0;
	case CALL_EVENT_MOVE:
		break;
	}
	return 0;
}

int call_lines_flush(struct call_lines *l)
{
	return out_finish(&l->out);
}

void call_lines_done(struct call_lines *l)
{
	for (size_t i = 0; i < l->n_names; i++)
		free(l->names[i].text);
	free(l->names);
	hash_done(&l->numbers);
	out_done(&l->out);
}
