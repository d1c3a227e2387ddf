/* SPDX-License-Identifier: MIT */
/*
 * A strict interface to json-c: parsing of a whole text with a depth limit, and getters that check the type. A getter
 * returns -ENOENT for an absent or null key and -EINVAL for another type, and leaves its output unchanged on failure.
 *
 * Objects are made without a check of each step: if memory runs out, the object or array that lacks a member is marked
 * as incomplete, and json_text() of it, or of what it is in, returns NULL. o and array may be NULL, which is what
 * json_object_new_object() and json_object_new_array() then return. json-c's own functions must not get NULL.
 */
#ifndef CSIGHT_JSON_H
#define CSIGHT_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"

static inline void json_putp(json_object **o)
{
	json_object_put(*o);
}
#define _cleanup_json_ _cleanup_(json_putp)

enum { JSON_DEPTH = 16 };

/*
 * Parses size bytes, which need not end in NUL. -EBADMSG: they are not exactly one JSON value in valid UTF-8, with
 * unique keys, integers that fit in an int64_t, and at most JSON_DEPTH levels; -ENOMEM.
 */
int json_parse(const char *text, size_t size, json_object **ret);

/* o owns the returned value. json_get_str() refuses a text with an embedded NUL. */
int json_get(json_object *o, const char *key, json_type type, json_object **ret);
int json_get_str(json_object *o, const char *key, const char **ret);
int json_get_bool(json_object *o, const char *key, bool *ret);
int json_get_i64(json_object *o, const char *key, int64_t *ret);
int json_get_u64(json_object *o, const char *key, uint64_t *ret);

/* -EINVAL also for a number outside of the limits. */
int json_get_within(json_object *o, const char *key, int64_t least, int64_t most, int64_t *ret);

/* Take the value. A NULL value is one for which there was no memory. */
void json_add(json_object *o, const char *key, json_object *v);
void json_array_add(json_object *array, json_object *v);

void json_array_add_null(json_object *array);

/* Returns true if memory ran out while members were added to o, or to an object or array before o received it. */
bool json_is_incomplete(json_object *o);

/* 0 for NULL. */
size_t json_array_size(json_object *array);

enum json_form { JSON_PLAIN = 0, JSON_PRETTY = 1, JSON_SLASHES = 2 /* escaped, for a text within HTML */ };

/*
 * Returns o as text, which the caller frees. form: bits of enum json_form. NULL: memory ran out, now or while o was
 * made. Control characters and others that a terminal should not get are escaped.
 */
char *json_text(json_object *o, unsigned form);

/* A NULL text adds nothing. A number above INT64_MAX becomes INT64_MAX, which readers can represent. */
void json_add_str(json_object *o, const char *key, const char *text);
void json_add_i64(json_object *o, const char *key, int64_t v);
void json_add_u64(json_object *o, const char *key, uint64_t v);
void json_add_bool(json_object *o, const char *key, bool v);
void json_add_double(json_object *o, const char *key, double v);
/* Adds a string "0x…": JSON readers lose precision in 64-bit numbers. */
void json_add_hex(json_object *o, const char *key, uint64_t v);

/*
 * Adds text that may be invalid UTF-8, such as a file name: each byte that is not part of a valid character becomes
 * U+FFFD.
 */
void json_add_bytes(json_object *o, const char *key, const char *text);
void json_array_add_bytes(json_object *array, const char *text);

/* Returns a new array of texts that stand one after another, each ended by NUL; the last may lack it. */
json_object *json_array_of_texts(const char *texts, size_t size);

#endif
