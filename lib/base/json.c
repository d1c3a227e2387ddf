#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

/*
 * json-c accepts much that is not JSON (NaN, single quotes, raw control characters, duplicate keys) and clamps numbers.
 * So the text is first checked by this scanner, which also counts members: json-c merges duplicate keys, so that fewer
 * members in its result than in the text betray one.
 */
struct scan {
	const char *at;
	const char *end;
	size_t members;
};

static void skip_space(struct scan *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
		s->at++;
}

static bool scan_char(struct scan *s, char c)
{
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

static bool scan_word(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
		return false;
	s->at += n;
	return true;
}

static bool scan_string(struct scan *s)
{
	if (!scan_char(s, '"'))
		return false;
	while (s->at < s->end) {
		unsigned char c = (unsigned char)*s->at++;

		if (c == '"')
			return true;
		if (c < 0x20)
			return false;
		if (c != '\\')
			continue;
		if (s->at == s->end || !strchr("\"\\/bfnrtu", *s->at) || !*s->at)
			return false;
		if (*s->at++ != 'u')
			continue;
		for (int i = 0; i < 4; i++, s->at++)
			if (s->at == s->end || !strchr("0123456789abcdefABCDEF", *s->at) || !*s->at)
				return false;
	}
	return false;
}

static bool scan_digits(struct scan *s, size_t *ret_count)
{
	const char *from = s->at;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	*ret_count = (size_t)(s->at - from);
	return *ret_count > 0;
}

static bool scan_number(struct scan *s)
{
	const char *first;
	size_t digits;

	scan_char(s, '-');
	first = s->at;
	if (!scan_digits(s, &digits) || (digits > 1 && *first == '0'))
		return false;
	/* What does not fit in an int64 would be clamped without a word. */
	if (digits > 19 || (digits == 19 && memcmp(first, "9223372036854775807", 19) > 0))
		return false;
	if (scan_char(s, '.') && !scan_digits(s, &digits))
		return false;
	if (scan_char(s, 'e') || scan_char(s, 'E')) {
		if (!scan_char(s, '+'))
			scan_char(s, '-');
		return scan_digits(s, &digits);
	}
	return true;
}

static bool scan_value(struct scan *s, int depth);

static bool scan_list(struct scan *s, int depth, bool object)
{
	char close = object ? '}' : ']';

	if (depth == 0)
		return false;
	s->at++;
	skip_space(s);
	if (scan_char(s, close))
		return true;
	for (;;) {
		skip_space(s);
		if (object) {
			if (!scan_string(s))
				return false;
			s->members++;
			skip_space(s);
			if (!scan_char(s, ':'))
				return false;
		}
		if (!scan_value(s, depth - 1))
			return false;
		if (scan_char(s, close))
			return true;
		if (!scan_char(s, ','))
			return false;
	}
}

static bool scan_value(struct scan *s, int depth)
{
	bool ok;

	skip_space(s);
	if (s->at == s->end)
		return false;
	switch (*s->at) {
	case '{':
	case '[':
		ok = scan_list(s, depth, *s->at == '{');
		break;
	case '"':
		ok = scan_string(s);
		break;
	case 't':
		ok = scan_word(s, "true");
		break;
	case 'f':
		ok = scan_word(s, "false");
		break;
	case 'n':
		ok = scan_word(s, "null");
		break;
	default:
		ok = scan_number(s);
	}
	skip_space(s);
	return ok;
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

	if (size > INT_MAX || !scan_value(&s, JSON_DEPTH) || s.at != s.end)
		return -EBADMSG;
	tok = json_tokener_new_ex(JSON_DEPTH + 2);
	if (!tok)
		return -ENOMEM;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)size);
	/* A bare number may go on: only the end of the text ends it. */
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

int json_get_hex(json_object *o, const char *key, uint64_t *ret)
{
	const char *text, *digit;
	uint64_t v = 0;
	int rc = json_get_str(o, key, &text);

	if (rc < 0)
		return rc;
	if (text[0] != '0' || text[1] != 'x' || !text[2] || strlen(text) > 18)
		return -EINVAL;
	for (digit = text + 2; *digit; digit++) {
		const char *hex = "0123456789abcdef", *found = strchr(hex, *digit | 0x20);

		if (!found)
			return -EINVAL;
		v = v << 4 | (uint64_t)(found - hex);
	}
	*ret = v;
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

void json_add_bytes(json_object *o, const char *key, const char *text)
{
	_cleanup_buf_ struct buf b = { 0 };
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		uint32_t c;
		size_t n = utf8_char(s, &c);

		if (n)
			buf_add(&b, s, n);
		else
			buf_add(&b, "\xef\xbf\xbd", 3);
		s += n ? n : 1;
	}
	buf_u8(&b, 0);
	if (!buf_error(&b))
		json_add_str(o, key, (const char *)b.data);
}
