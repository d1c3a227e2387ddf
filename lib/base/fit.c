/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/escape.h"
#include "lib/base/fit.h"
#include "lib/base/util.h"

static const struct {
	uint32_t first, last;
	size_t width;
} widths[] = {
	{ 0x0300, 0x036f, 0 },   { 0x1100, 0x115f, 2 },   { 0x200b, 0x200d, 0 },   { 0x20d0, 0x20ff, 0 },
	{ 0x2e80, 0x303e, 2 },   { 0x3041, 0xa4cf, 2 },   { 0xac00, 0xd7a3, 2 },   { 0xf900, 0xfaff, 2 },
	{ 0xfe00, 0xfe0f, 0 },   { 0xfe20, 0xfe2f, 0 },   { 0xfe30, 0xfe6f, 2 },   { 0xff00, 0xff60, 2 },
	{ 0xffe0, 0xffe6, 2 },   { 0x1f300, 0x1f64f, 2 }, { 0x1f680, 0x1f6ff, 2 }, { 0x1f900, 0x1faff, 2 },
	{ 0x20000, 0x3fffd, 2 },
};

/* Returns the size of the character at text; *ret: its columns. */
static size_t character(const char *text, size_t *ret)
{
	uint32_t c = 0;
	size_t n = escape_utf8((const unsigned char *)text, &c);

	*ret = 1;
	for (size_t i = 0; n > 1 && i < ELEMENTS(widths); i++)
		if (c >= widths[i].first && c <= widths[i].last)
			*ret = widths[i].width;
	return n ? n : 1;
}

size_t fit_width(const char *text)
{
	size_t all = 0, width;

	for (; *text; all += width)
		text += character(text, &width);
	return all;
}

/* Returns the size of the longest beginning of text that needs at most `width` columns. */
static size_t beginning(const char *text, size_t width)
{
	size_t size = 0, n, one;

	while (text[size]) {
		n = character(text + size, &one);
		if (one > width)
			break;
		width -= one;
		size += n;
	}
	return size;
}

/* Returns the end of text that needs at most `width` columns. */
static const char *ending(const char *text, size_t width)
{
	size_t all = fit_width(text), one;

	while (all > width) {
		text += character(text, &one);
		all -= one;
	}
	return text;
}

/* Returns the last part of a qualified name, or NULL; "::" within brackets divides nothing. */
static const char *last_part(const char *text)
{
	const char *last = NULL;
	int depth = 0;

	for (const char *at = text; *at; at++) {
		depth += strchr("(<[{", *at) != NULL;
		depth -= strchr(")>]}", *at) != NULL;
		if (depth <= 0 && at[0] == ':' && at[1] == ':' && at[2])
			last = at + 2;
	}
	return last;
}

static const char *ellipsis(const struct fit *f)
{
	return f->ascii ? "..." : "\xe2\x80\xa6";
}

/* Sets the result to: head, ellipsis, the text from `tail` on; cut, with another ellipsis, if that is too wide. */
static void compose(struct fit *f, const char *text, size_t head, const char *tail, size_t width)
{
	size_t dots = f->ascii ? 3 : 1;
	size_t left = width - MIN(width, fit_width(text) - fit_width(text + head) + dots);

	buf_clear(&f->result);
	buf_add(&f->result, text, head);
	buf_add(&f->result, ellipsis(f), strlen(ellipsis(f)));
	if (fit_width(tail) <= left) {
		buf_add(&f->result, tail, strlen(tail));
	} else {
		buf_add(&f->result, tail, beginning(tail, left - MIN(left, dots)));
		buf_add(&f->result, ellipsis(f), strlen(ellipsis(f)));
	}
	buf_u8(&f->result, 0);
}

/* Returns true if the result is free, or is the one of this text already. */
static bool take(struct fit *f, uint32_t source)
{
	uint32_t result, *taken;
	int rc;

	if (buf_error(&f->result) || texts_find(&f->texts, (const char *)f->result.data, &result) < 0)
		return false;
	rc = hash_find(&f->taken, result, 0, &taken);
	if (rc == 1)
		*taken = source;
	return rc >= 0 && *taken == source;
}

/* Tries ends of different lengths, then a number. The first form is the same whatever was fitted before. */
static bool shorten(struct fit *f, const char *text, size_t width, uint32_t source)
{
	size_t dots = f->ascii ? 3 : 1, room = width - dots;
	const char *part = last_part(text), *offset = *text == '[' ? strrchr(text, '+') : NULL;
	char number[24];

	/* A placeholder, "[file+0x1234]" */
	if (offset && fit_width(offset) <= room)
		compose(f, text, beginning(text, room - fit_width(offset)), offset, width);
	else if (part && fit_width(part) <= room)
		compose(f, text, 0, ending(text, room), width);
	else if (part && room >= 24)
		compose(f, text, 0, part, width);
	else
		compose(f, text, beginning(text, room), "", width);
	for (size_t i = 1; i <= 4; i++) {
		if (take(f, source))
			return true;
		compose(f, text, beginning(text, room * (4 - i) / 4), ending(text, room - room * (4 - i) / 4), width);
	}
	for (unsigned i = 2; i < UINT32_MAX && buf_error(&f->result) == 0; i++) {
		if (take(f, source))
			return true;
		snprintf(number, sizeof(number), "#%u", i);
		compose(f, text, beginning(text, room - MIN(room, strlen(number))), number, width);
	}
	return false;
}

const char *fit_text(struct fit *f, const char *text, size_t width)
{
	uint32_t source;
	int rc;

	if (!width)
		return text;
	width = MAX(width, (size_t)FIT_MIN);
	rc = texts_find(&f->texts, text, &source);
	buf_clear(&f->result);
	buf_add(&f->result, text, strlen(text) + 1);
	if (rc < 0 || buf_error(&f->result))
		return text;
	/* A short text may look like the shortened form of another. */
	if (fit_width(text) <= width && take(f, source))
		return text;
	return shorten(f, text, width, source) ? (const char *)f->result.data : text;
}

void fit_done(struct fit *f)
{
	texts_done(&f->texts);
	hash_done(&f->taken);
	buf_done(&f->result);
}
