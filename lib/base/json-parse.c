/* SPDX-License-Identifier: MIT */
/*
 * json-c 0.16's own parser dereferences NULL where memory runs out, accepts NaN, raw control characters and leading
 * zeros, clamps numbers, and merges duplicate keys. This one makes json-c's objects.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/hex.h"
#include "lib/base/json.h"

enum { NUMBER_MAX = 64 };

struct json_parser {
	const char *at, *end;
	struct buf text; /* the string that was parsed last, with a NUL */
	unsigned depth;
};

static int parse_value(struct json_parser *p, json_object **ret);

static void skip_blanks(struct json_parser *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\n'))
		p->at++;
}

/* Returns true, and moves past it, if the next character is c. */
static bool take(struct json_parser *p, char c)
{
	if (p->at == p->end || *p->at != c)
		return false;
	p->at++;
	return true;
}

static int parse_word(struct json_parser *p, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
		return -EBADMSG;
	p->at += n;
	return 0;
}

static size_t skip_digits(struct json_parser *p)
{
	const char *from = p->at;

	while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
		p->at++;
	return (size_t)(p->at - from);
}

static int parse_number(struct json_parser *p, json_object **ret)
{
	const char *from = p->at, *first, *most;
	char text[NUMBER_MAX];
	bool whole = true;
	size_t digits;

	most = take(p, '-') ? "9223372036854775808" : "9223372036854775807";
	first = p->at;
	digits = skip_digits(p);
	if (!digits || (digits > 1 && *first == '0'))
		return -EBADMSG;
	if (digits > strlen(most) || (digits == strlen(most) && memcmp(first, most, digits) > 0))
		return -EBADMSG;
	if (take(p, '.')) {
		whole = false;
		if (!skip_digits(p))
			return -EBADMSG;
	}
	if (take(p, 'e') || take(p, 'E')) {
		whole = false;
		if (!take(p, '+'))
			take(p, '-');
		if (!skip_digits(p))
			return -EBADMSG;
	}
	if ((size_t)(p->at - from) >= sizeof(text))
		return -EBADMSG;
	memcpy(text, from, (size_t)(p->at - from));
	text[p->at - from] = 0;
	/* JSON has no infinity: it could not be written again. */
	if (!whole && !isfinite(strtod(text, NULL)))
		return -EBADMSG;
	*ret =
	    whole ? json_object_new_int64(strtoll(text, NULL, 10)) : json_object_new_double_s(strtod(text, NULL), text);
	return *ret ? 0 : -ENOMEM;
}

/* Parses the four digits after \u. */
static int parse_unit(struct json_parser *p, uint32_t *ret)
{
	*ret = 0;
	for (int i = 0; i < 4; i++) {
		int digit =
		    p->at == p->end ? -1 : hex_digit(*p->at >= 'A' && *p->at <= 'F' ? (char)(*p->at + 32) : *p->at);

		if (digit < 0)
			return -EBADMSG;
		p->at++;
		*ret = *ret << 4 | (uint32_t)digit;
	}
	return 0;
}

static void put_utf8(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_u8(b, (uint8_t)c);
		return;
	}
	if (c < 0x800) {
		buf_u8(b, (uint8_t)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			buf_u8(b, (uint8_t)(0xe0 | c >> 12));
		} else {
			buf_u8(b, (uint8_t)(0xf0 | c >> 18));
			buf_u8(b, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
		}
		buf_u8(b, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
	}
	buf_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
}

/* Parses what follows \u. One half of a surrogate pair without the other becomes U+FFFD. */
static int parse_code_point(struct json_parser *p)
{
	uint32_t c, low;
	const char *second;

	if (parse_unit(p, &c) < 0)
		return -EBADMSG;
	second = p->at;
	if (c >= 0xd800 && c < 0xdc00 && take(p, '\\') && take(p, 'u')) {
		if (parse_unit(p, &low) < 0)
			return -EBADMSG;
		if (low >= 0xdc00 && low < 0xe000)
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		else
			p->at = second;
	} else {
		p->at = second;
	}
	put_utf8(&p->text, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
	return 0;
}

static int parse_escape(struct json_parser *p)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;

	if (p->at == p->end)
		return -EBADMSG;
	if (take(p, 'u'))
		return parse_code_point(p);
	name = *p->at ? strchr(names, *p->at++) : NULL;
	if (!name)
		return -EBADMSG;
	buf_u8(&p->text, (uint8_t)values[name - names]);
	return 0;
}

/* Parses one character other than an escape. The copy has the NUL that escape_utf8() needs; the text may have none. */
static int parse_character(struct json_parser *p)
{
	unsigned char c[5] = { 0 };
	uint32_t code;
	size_t n;

	memcpy(c, p->at, MIN((size_t)(p->end - p->at), sizeof(c) - 1));
	n = c[0] < 0x20 ? 0 : escape_utf8(c, &code);
	if (!n)
		return -EBADMSG;
	buf_add(&p->text, c, n);
	p->at += n;
	return 0;
}

/* Sets p->text. */
static int parse_string(struct json_parser *p)
{
	int rc = 0;

	buf_clear(&p->text);
	if (!take(p, '"'))
		return -EBADMSG;
	while (rc == 0 && !take(p, '"'))
		rc = p->at == p->end ? -EBADMSG : take(p, '\\') ? parse_escape(p) : parse_character(p);
	buf_u8(&p->text, 0);
	return rc < 0 ? rc : buf_error(&p->text);
}

static int parse_member(struct json_parser *p, json_object *o)
{
	_cleanup_free_ char *key = NULL;
	_cleanup_json_ json_object *v = NULL;
	int rc;

	skip_blanks(p);
	rc = parse_string(p);
	if (rc < 0)
		return rc;
	/* json-c's keys end at a NUL. */
	if (strlen((const char *)p->text.data) + 1 != p->text.size ||
	    json_object_object_get_ex(o, (const char *)p->text.data, NULL))
		return -EBADMSG;
	key = strdup((const char *)p->text.data);
	if (!key)
		return -ENOMEM;
	skip_blanks(p);
	if (!take(p, ':'))
		return -EBADMSG;
	rc = parse_value(p, &v);
	if (rc < 0)
		return rc;
	if (json_object_object_add(o, key, v) < 0)
		return -ENOMEM;
	v = NULL;
	return 0;
}

static int parse_item(struct json_parser *p, json_object *array)
{
	json_object *v = NULL;
	int rc = parse_value(p, &v);

	if (rc < 0)
		return rc;
	if (json_object_array_add(array, v) < 0) {
		json_object_put(v);
		return -ENOMEM;
	}
	return 0;
}

/* Parses the members of an object or the items of an array, up to its closing bracket `end`, and adds them to `to`. */
static int parse_list(struct json_parser *p, json_object *to, char end)
{
	int rc;

	skip_blanks(p);
	if (take(p, end))
		return 0;
	do {
		rc = end == '}' ? parse_member(p, to) : parse_item(p, to);
		if (rc < 0)
			return rc;
		skip_blanks(p);
	} while (take(p, ','));
	return take(p, end) ? 0 : -EBADMSG;
}

static int parse_container(struct json_parser *p, json_object **ret)
{
	bool object = *p->at++ == '{';
	_cleanup_json_ json_object *o = NULL;
	int rc;

	if (p->depth == JSON_DEPTH)
		return -EBADMSG;
	o = object ? json_object_new_object() : json_object_new_array();
	if (!o)
		return -ENOMEM;
	p->depth++;
	rc = parse_list(p, o, object ? '}' : ']');
	p->depth--;
	if (rc == 0)
		*ret = TAKE_PTR(o);
	return rc;
}

static int parse_text(struct json_parser *p, json_object **ret)
{
	int rc = parse_string(p);

	if (rc < 0)
		return rc;
	*ret = json_object_new_string_len((const char *)p->text.data, (int)p->text.size - 1);
	return *ret ? 0 : -ENOMEM;
}

static int parse_boolean(struct json_parser *p, bool value, json_object **ret)
{
	int rc = parse_word(p, value ? "true" : "false");

	if (rc < 0)
		return rc;
	*ret = json_object_new_boolean(value);
	return *ret ? 0 : -ENOMEM;
}

/* Sets *ret to NULL for null. */
static int parse_value(struct json_parser *p, json_object **ret)
{
	*ret = NULL;
	skip_blanks(p);
	if (p->at == p->end)
		return -EBADMSG;
	switch (*p->at) {
	case '{':
	case '[':
		return parse_container(p, ret);
	case '"':
		return parse_text(p, ret);
	case 't':
	case 'f':
		return parse_boolean(p, *p->at == 't', ret);
	case 'n':
		return parse_word(p, "null");
	default:
		return parse_number(p, ret);
	}
}

int json_parse(const char *text, size_t size, json_object **ret)
{
	_cleanup_json_ json_object *o = NULL;
	struct json_parser p = { .at = text, .end = text + size };
	int rc = size > INT_MAX ? -EBADMSG : parse_value(&p, &o);

	if (rc == 0) {
		skip_blanks(&p);
		if (p.at != p.end)
			rc = -EBADMSG;
	}
	buf_done(&p.text);
	if (rc == 0)
		*ret = TAKE_PTR(o);
	return rc;
}
