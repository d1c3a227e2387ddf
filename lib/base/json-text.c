/* SPDX-License-Identifier: MIT */
/* json-c's own writer does not report that memory ran out: its text then lacks a part. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

struct json_output {
	struct buf out;
	unsigned form, depth;
};

static void put_value(struct json_output *w, json_object *o);

static void put_indent(struct json_output *w)
{
	if (w->form & JSON_PRETTY)
		buf_printf(&w->out, "\n%*s", (int)(2 * w->depth), "");
}

/* Characters that a terminal should not get are escaped, too; invalid UTF-8 stays. */
static void put_string(struct json_output *w, const char *text, size_t size)
{
	static const char controls[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";

	buf_u8(&w->out, '"');
	for (size_t at = 0; at < size;) {
		const unsigned char *s = (const unsigned char *)text + at;
		const char *control = *s ? strchr(controls, *s) : NULL;
		uint32_t c = *s;
		size_t n = *s ? escape_utf8(s, &c) : 1;

		if (control)
			buf_printf(&w->out, "\\%c", names[control - controls]);
		else if (*s == '/' && w->form & JSON_SLASHES)
			buf_printf(&w->out, "\\/");
		else if (n && c <= 0xffff && !escape_is_printable(c))
			buf_printf(&w->out, "\\u%04x", c);
		else
			buf_add(&w->out, s, n ? n : 1);
		at += n ? n : 1;
	}
	buf_u8(&w->out, '"');
}

static void put_object(struct json_output *w, json_object *o)
{
	bool some = false;

	buf_u8(&w->out, '{');
	w->depth++;
	json_object_object_foreach (o, key, v) {
		if (some)
			buf_u8(&w->out, ',');
		some = true;
		put_indent(w);
		put_string(w, key, strlen(key));
		buf_u8(&w->out, ':');
		put_value(w, v);
	}
	w->depth--;
	if (some)
		put_indent(w);
	buf_u8(&w->out, '}');
}

static void put_array(struct json_output *w, json_object *o)
{
	size_t n = json_object_array_length(o);

	buf_u8(&w->out, '[');
	w->depth++;
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_u8(&w->out, ',');
		put_indent(w);
		put_value(w, json_object_array_get_idx(o, i));
	}
	w->depth--;
	if (n)
		put_indent(w);
	buf_u8(&w->out, ']');
}

/* JSON has no infinity and no NaN. */
static void put_double(struct json_output *w, json_object *o)
{
	double v = json_object_get_double(o);
	const char *as_parsed = json_object_get_userdata(o);
	char text[64];

	snprintf(text, sizeof(text), "%.17g", v);
	if (!isfinite(v))
		buf_printf(&w->out, "null");
	else if (as_parsed)
		buf_add(&w->out, as_parsed, strlen(as_parsed));
	else
		buf_printf(&w->out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_value(struct json_output *w, json_object *o)
{
	switch (json_object_get_type(o)) {
	case json_type_null:
		buf_printf(&w->out, "null");
		return;
	case json_type_boolean:
		buf_printf(&w->out, json_object_get_boolean(o) ? "true" : "false");
		return;
	case json_type_int:
		buf_printf(&w->out, "%" PRId64, json_object_get_int64(o));
		return;
	case json_type_double:
		put_double(w, o);
		return;
	case json_type_string:
		put_string(w, json_object_get_string(o), (size_t)json_object_get_string_len(o));
		return;
	case json_type_object:
		put_object(w, o);
		break;
	case json_type_array:
		put_array(w, o);
		break;
	}
	if (json_is_incomplete(o) && !w->out.error)
		w->out.error = -ENOMEM;
}

char *json_text(json_object *o, unsigned form)
{
	struct json_output w = { .form = form };

	if (!o)
		return NULL;
	put_value(&w, o);
	buf_u8(&w.out, 0);
	if (buf_error(&w.out) == 0)
		return (char *)w.out.data;
	buf_done(&w.out);
	return NULL;
}
