/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/annotation.h"

static bool is_text(const char *text, size_t least, size_t most)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return n >= least && n <= most;
}

static bool is_name(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	return is_text(text, 1, ANNOTATION_NAME_MAX) && strspn(text, letters) == strlen(text);
}

/* Adds a label. The last one of a name counts. */
static int put_label(json_object *labels, json_object *from)
{
	const char *name, *value, *other;
	json_object *o;

	if (json_get_str(from, "name", &name) < 0 || json_get_str(from, "value", &value) < 0 || !is_name(name) ||
	    !is_text(value, 0, ANNOTATION_VALUE_MAX))
		return -EINVAL;
	for (size_t n = 0; n < json_array_size(labels); n++)
		if (json_get_str(json_object_array_get_idx(labels, n), "name", &other) == 0 && strcmp(name, other) == 0)
			json_object_array_del_idx(labels, n--, 1);
	o = json_object_new_object();
	json_add_str(o, "name", name);
	json_add_str(o, "value", value);
	json_array_add(labels, o);
	return 0;
}

static int read_labels(json_object *from, json_object **ret)
{
	_cleanup_json_ json_object *labels = json_object_new_array();
	size_t n = json_array_size(from);

	if (n > ANNOTATION_LABELS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (put_label(labels, json_object_array_get_idx(from, i)) < 0)
			return -EINVAL;
	if (n)
		*ret = TAKE_PTR(labels);
	return 0;
}

int annotation_read(json_object *from, struct annotation *ret, const char **ret_bad)
{
	struct annotation a = { 0 };
	json_object *list;
	const char *why;
	int rc = json_get_str(from, "why", &why);

	*ret_bad = "why";
	if (rc == 0 && is_text(why, 0, ANNOTATION_WHY_MAX))
		a.why = json_object_new_string(why);
	else if (rc != -ENOENT)
		return -EINVAL;
	*ret_bad = "labels";
	rc = json_get(from, "labels", json_type_array, &list);
	if (rc == 0)
		rc = read_labels(list, &a.labels);
	if (rc != -EINVAL) {
		*ret_bad = "last";
		rc = json_get_u64(from, "last", &a.last);
	}
	if (rc == -EINVAL) {
		annotation_done(&a);
		return rc;
	}
	*ret = a;
	return 0;
}

void annotation_done(struct annotation *a)
{
	json_object_put(a->why);
	json_object_put(a->labels);
	*a = (struct annotation){ 0 };
}

void annotation_add(const struct annotation *a, json_object *to)
{
	if (a->why)
		json_add(to, "why", json_object_get(a->why));
	if (a->labels)
		json_add(to, "labels", json_object_get(a->labels));
	if (a->last)
		json_add_u64(to, "last", a->last);
}

struct annotation annotation_take(struct annotation *a)
{
	struct annotation taken = *a;

	*a = (struct annotation){ 0 };
	return taken;
}

struct annotation annotation_copy(const struct annotation *a)
{
	struct annotation copy = { .last = a->last };

	if (a->why)
		json_object_deep_copy(a->why, &copy.why, NULL);
	if (a->labels)
		json_object_deep_copy(a->labels, &copy.labels, NULL);
	return copy;
}
