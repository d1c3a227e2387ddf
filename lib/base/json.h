/*
 * json-c with its traps closed: strict parsing of a whole text, a depth limit, and getters that check the type. A
 * getter for an absent or null key returns -ENOENT, for another type -EINVAL; the output is untouched on failure.
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

/* text need not end in NUL. -EBADMSG: not exactly one JSON value with unique keys in valid UTF-8; -ENOMEM. */
int json_parse(const char *text, size_t size, json_object **ret);

/* The value stays owned by o. json_get_str: text without an embedded NUL. */
int json_get(json_object *o, const char *key, json_type type, json_object **ret);
int json_get_str(json_object *o, const char *key, const char **ret);
int json_get_bool(json_object *o, const char *key, bool *ret);
int json_get_i64(json_object *o, const char *key, int64_t *ret);
int json_get_u64(json_object *o, const char *key, uint64_t *ret);

/*
 * Adders: they ignore lack of memory (json-c aborts nothing; the key is absent then). NULL text adds nothing. A number
 * above INT64_MAX becomes that: no reader takes more.
 */
void json_add_str(json_object *o, const char *key, const char *text);
void json_add_i64(json_object *o, const char *key, int64_t v);
void json_add_u64(json_object *o, const char *key, uint64_t v);
void json_add_bool(json_object *o, const char *key, bool v);
/* "0x…" in a string, as 64-bit addresses travel. */
void json_add_hex(json_object *o, const char *key, uint64_t v);

/*
 * Text from outside may be bytes that are no UTF-8; JSON has only text. Every byte that is not part of a valid
 * character becomes U+FFFD.
 */
void json_add_bytes(json_object *o, const char *key, const char *text);
void json_array_add_bytes(json_object *array, const char *text);

/* Returns a new array of texts that stand one after another, each ended by NUL; the last may lack it. */
json_object *json_array_of_texts(const char *texts, size_t size);

#endif
