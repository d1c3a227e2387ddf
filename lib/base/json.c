/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

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

int json_get_within(json_object *o, const char *key, int64_t least, int64_t most, int64_t *ret)
{
	int64_t v;
	int rc = json_get_i64(o, key, &v);

	if (rc < 0)
		return rc;
	if (v < least || v > most)
		return -EINVAL;
	*ret = v;
	return 0;
}

/* The user data of an object or an array that lacks a member for want of memory. */
static char incomplete[] = "incomplete";

static void mark(json_object *o)
{
	if (o)
		json_object_set_userdata(o, incomplete, NULL);
}

void json_add(json_object *o, const char *key, json_object *v)
{
	if (json_is_incomplete(v))
		mark(o);
	if (o && v && json_object_object_add(o, key, v) == 0)
		return;
	json_object_put(v);
	mark(o);
}

void json_array_add(json_object *array, json_object *v)
{
	if (json_is_incomplete(v))
		mark(array);
	if (array && v && json_object_array_add(array, v) == 0)
		return;
	json_object_put(v);
	mark(array);
}

void json_array_add_null(json_object *array)
{
	if (array && json_object_array_add(array, NULL) < 0)
		mark(array);
}

bool json_is_incomplete(json_object *o)
{
	return o && json_object_get_userdata(o) == incomplete;
}

size_t json_array_size(json_object *array)
{
	return array ? json_object_array_length(array) : 0;
}

void json_add_str(json_object *o, const char *key, const char *text)
{
	if (text)
		json_add(o, key, json_object_new_string(text));
}

void json_add_i64(json_object *o, const char *key, int64_t v)
{
	json_add(o, key, json_object_new_int64(v));
}

void json_add_u64(json_object *o, const char *key, uint64_t v)
{
	json_add(o, key, json_object_new_int64(v > INT64_MAX ? INT64_MAX : (int64_t)v));
}

void json_add_bool(json_object *o, const char *key, bool v)
{
	json_add(o, key, json_object_new_boolean(v));
}

void json_add_double(json_object *o, const char *key, double v)
{
	json_add(o, key, json_object_new_double(v));
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
	json_add(o, key, string_of_bytes(text));
}

void json_array_add_bytes(json_object *array, const char *text)
{
	json_array_add(array, string_of_bytes(text));
}

json_object *json_array_of_texts(const char *texts, size_t size)
{
	json_object *array = json_object_new_array();

	for (size_t at = 0; at < size;) {
		_cleanup_free_ char *text = strndup(texts + at, size - at);

		if (!text) {
			json_array_add(array, NULL);
			break;
		}
		at += strlen(text) + 1;
		json_array_add_bytes(array, text);
	}
	return array;
}
