/* SPDX-License-Identifier: MIT */
/* Access to the fields of replies. */
#include "config.h"

#include "lib/csight/csight-internal.h"

static json_object *get_member(const struct csight_object *o, const char *field, json_type type)
{
	json_object *v = csight_object_json(o);

	if (field)
		return json_get(v, field, type, &v) < 0 ? NULL : v;
	return json_object_is_type(v, type) ? v : NULL;
}

const char *csight_text(const struct csight_object *o, const char *field)
{
	json_object *v = get_member(o, field, json_type_string);

	return v ? json_object_get_string(v) : NULL;
}

int64_t csight_number(const struct csight_object *o, const char *field, int64_t otherwise)
{
	json_object *v = get_member(o, field, json_type_int);

	return v ? json_object_get_int64(v) : otherwise;
}

bool csight_flag(const struct csight_object *o, const char *field)
{
	json_object *v = get_member(o, field, json_type_boolean);

	return v && json_object_get_boolean(v);
}

const struct csight_object *csight_field(const struct csight_object *o, const char *field)
{
	json_object *v = NULL;

	if (!field)
		return o;
	json_object_object_get_ex(csight_object_json(o), field, &v);
	return csight_object_of(v);
}

size_t csight_count(const struct csight_object *o, const char *field)
{
	json_object *v = get_member(o, field, json_type_array);

	return v ? json_array_size(v) : 0;
}

const struct csight_object *csight_item(const struct csight_object *o, const char *field, size_t index)
{
	json_object *v = get_member(o, field, json_type_array);

	return v ? csight_object_of(json_object_array_get_idx(v, index)) : NULL;
}

static void free_text(json_object *o, void *text)
{
	(void)o;
	free(text);
}

const char *csight_json(const struct csight_object *o)
{
	json_object *v = csight_object_json(o);
	char *text = v ? json_object_get_userdata(v) : NULL;

	if (!v)
		return "null";
	/* The object keeps its text. */
	if (!text) {
		text = json_text(v, JSON_PLAIN);
		json_object_set_userdata(v, text, free_text);
	}
	return text;
}

struct csight_object *csight_object_ref(struct csight_object *o)
{
	return csight_object_of(json_object_get(csight_object_json(o)));
}

struct csight_object *csight_object_free(struct csight_object *o)
{
	json_object_put(csight_object_json(o));
	return NULL;
}
