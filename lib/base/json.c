/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

/*
 * json-c's strict parser accepts NaN, raw control characters and leading zeros, clamps numbers, and merges duplicate
 * keys. A scan of the text's tokens refuses the former and counts the members: if the parsed value has fewer, a key was
 * duplicate. The structure is json-c's to check.
 */
struct scan {
	const char *at, *end;
	size_t members;
};

static bool scan_string(struct scan *s)
{
	for (s->at++; s->at < s->end; s->at++) {
		if (*s->at == '"') {
			s->at++;
			return true;
		}
		if ((unsigned char)*s->at < 0x20)
			return false;
		s->at += *s->at == '\\' && s->end - s->at > 1;
	}
	return false;
}

static bool scan_word(struct scan *s)
{
	static const char *const words[] = { "true", "false", "null" };

	for (size_t i = 0; i < ELEMENTS(words); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
			s->at += n;
			return true;
		}
	}
	return false;
}

static size_t scan_digits(struct scan *s)
{
	const char *from = s->at;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	return (size_t)(s->at - from);
}

static bool scan_number(struct scan *s)
{
	const char *first;
	size_t digits;

	s->at += *s->at == '-';
	first = s->at;
	digits = scan_digits(s);
	if (!digits || (digits > 1 && *first == '0'))
		return false;
	/* json-c would clamp a number that does not fit in an int64_t. */
	if (digits > 19 || (digits == 19 && memcmp(first, "9223372036854775807", 19) > 0))
		return false;
	if (s->at < s->end && *s->at == '.') {
		s->at++;
		if (!scan_digits(s))
			return false;
	}
	if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
		s->at++;
		s->at += s->at < s->end && (*s->at == '+' || *s->at == '-');
		return scan_digits(s) > 0;
	}
	return true;
}

static bool scan_tokens(struct scan *s)
{
	bool good = true;

	while (good && s->at < s->end) {
		char c = *s->at;

		if (c && strchr(" \t\r\n{}[],:", c)) {
			s->members += c == ':';
			s->at++;
		} else if (c == '"') {
			good = scan_string(s);
		} else {
			good = c == '-' || (c >= '0' && c <= '9') ? scan_number(s) : scan_word(s);
		}
	}
	return good;
}

static size_t count_members(json_object *o)
{
	size_t n = 0;

	if (json_object_is_type(o, json_type_object)) {
		json_object_object_foreach (o, key, value) {
			(void)key;
			n += 1 + count_members(value);
		}
	} else if (json_object_is_type(o, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(o); i++)
			n += count_members(json_object_array_get_idx(o, i));
	}
	return n;
}

int json_parse(const char *text, size_t size, json_object **ret)
{
	_cleanup_json_ json_object *o = NULL;
	struct scan s = { text, text + size, 0 };
	json_tokener *tok;
	bool whole;

	if (size > INT_MAX || !scan_tokens(&s))
		return -EBADMSG;
	tok = json_tokener_new_ex(JSON_DEPTH + 1);
	if (!tok)
		return -ENOMEM;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)size);
	/* A number alone could continue: the tokener needs the NUL to end it. */
	if (!o && json_tokener_get_error(tok) == json_tokener_continue)
		o = json_tokener_parse_ex(tok, "", 1);
	whole = json_tokener_get_error(tok) == json_tokener_success;
	json_tokener_free(tok);
	if (!whole || count_members(o) != s.members)
		return -EBADMSG;
	*ret = TAKE_PTR(o);
	return 0;
}

int json_get(json_object *o, const char *key, json_type type, json_object **ret)
{
	json_object *v = NULL;

	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v) || !v)
		return -ENOENT;
	if (!json_object_is_type(v, type))
		return -EINVAL;
	*ret = v;
	return 0;
}

int json_get_str(json_object *o, const char *key, const char **ret)
{
	json_object *v;
	int rc = json_get(o, key, json_type_string, &v);

	if (rc < 0)
		return rc;
	if (strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
		return -EINVAL;
	*ret = json_object_get_string(v);
	return 0;
}

int json_get_bool(json_object *o, const char *key, bool *ret)
{
	json_object *v;
	int rc = json_get(o, key, json_type_boolean, &v);

	if (rc < 0)
		return rc;
	*ret = json_object_get_boolean(v);
	return 0;
}

int json_get_i64(json_object *o, const char *key, int64_t *ret)
{
	json_object *v;
	int rc = json_get(o, key, json_type_int, &v);

	if (rc < 0)
		return rc;
	*ret = json_object_get_int64(v);
	return 0;
}

int json_get_u64(json_object *o, const char *key, uint64_t *ret)
{
	int64_t v;
	int rc = json_get_i64(o, key, &v);

	if (rc < 0)
		return rc;
	if (v < 0)
		return -EINVAL;
	*ret = (uint64_t)v;
	return 0;
}

static void add(json_object *o, const char *key, json_object *v)
{
	if (v && (!o || json_object_object_add(o, key, v) < 0))
		json_object_put(v);
}

void json_add_str(json_object *o, const char *key, const char *text)
{
	if (text)
		add(o, key, json_object_new_string(text));
}

void json_add_i64(json_object *o, const char *key, int64_t v)
{
	add(o, key, json_object_new_int64(v));
}

void json_add_u64(json_object *o, const char *key, uint64_t v)
{
	add(o, key, json_object_new_int64(v > INT64_MAX ? INT64_MAX : (int64_t)v));
}

void json_add_bool(json_object *o, const char *key, bool v)
{
	add(o, key, json_object_new_boolean(v));
}

void json_add_hex(json_object *o, const char *key, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)v);
	json_add_str(o, key, text);
}

/* Returns a new string of the text in valid UTF-8, or NULL. */
static json_object *string_of_bytes(const char *text)
{
	_cleanup_buf_ struct buf b = { 0 };
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		uint32_t c;
		size_t n = escape_utf8(s, &c);

		if (n)
			buf_add(&b, s, n);
		else
			buf_add(&b, "\xef\xbf\xbd", 3);
		s += n ? n : 1;
	}
	buf_u8(&b, 0);
	return buf_error(&b) ? NULL : json_object_new_string((const char *)b.data);
}

void json_add_bytes(json_object *o, const char *key, const char *text)
{
	json_object *string = string_of_bytes(text);

	if (string && json_object_object_add(o, key, string) < 0)
		json_object_put(string);
}

void json_array_add_bytes(json_object *array, const char *text)
{
	json_object *string = string_of_bytes(text);

	if (string && json_object_array_add(array, string) < 0)
		json_object_put(string);
}

json_object *json_array_of_texts(const char *texts, size_t size)
{
	json_object *array = json_object_new_array();

	for (size_t at = 0; at < size;) {
		_cleanup_free_ char *text = strndup(texts + at, size - at);

		if (!text)
			break;
		at += strlen(text) + 1;
		json_array_add_bytes(array, text);
	}
	return array;
}
