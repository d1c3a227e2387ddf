/* SPDX-License-Identifier: MIT */
/*
 * What a caller says about a snapshot: why it was taken, labels, NAME=VALUE, and of how long a time it is, if not of
 * all. These are in snapshot.json and in org.csight's type Snapshot, as "why", "labels" and "last". Texts are short and
 * have no control characters.
 */
#ifndef CSIGHT_DAEMON_ANNOTATION_H
#define CSIGHT_DAEMON_ANNOTATION_H

#include "lib/base/json.h"

enum { ANNOTATION_WHY_MAX = 256, ANNOTATION_LABELS_MAX = 8, ANNOTATION_NAME_MAX = 32, ANNOTATION_VALUE_MAX = 64 };

/* Zeros are an empty annotation. */
struct annotation {
	json_object *why;    /* a string, or NULL */
	json_object *labels; /* an array of {"name": …, "value": …}, or NULL */
	uint64_t last;       /* ns; 0: all of the history */
};

/* Reads them from an object, the parameters of a call or snapshot.json. -EINVAL: *ret_bad is the invalid member. */
int annotation_read(json_object *from, struct annotation *ret, const char **ret_bad);
void annotation_done(struct annotation *a);

/* Adds the members that there are. */
void annotation_add(const struct annotation *a, json_object *to);

/* Moves an annotation: *a is empty afterwards. */
struct annotation annotation_take(struct annotation *a);

/* Returns a copy for another thread; without memory it lacks members. */
struct annotation annotation_copy(const struct annotation *a);

#endif
