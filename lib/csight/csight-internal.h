/* SPDX-License-Identifier: MIT */
/* What the files of libcsight share. Nothing of this is exported. */
#ifndef CSIGHT_CSIGHT_INTERNAL_H
#define CSIGHT_CSIGHT_INTERNAL_H

#include "lib/csight/csight.h"
#include "lib/varlink/varlink.h"

struct csight {
	struct varlink_stream *stream;
	char *socket;
	bool chosen;     /* the caller or $CSIGHT_SOCKET named the socket */
	char doing[128]; /* the current call's action, for its error text */
	char *error_name;
	char error[1024];
};

/* A struct csight_object is a json_object under another name, which keeps json-c out of the interface. */
static inline struct csight_object *csight_object_of(json_object *o)
{
	return (struct csight_object *)o;
}

static inline json_object *csight_object_json(const struct csight_object *o)
{
	return (json_object *)o;
}

/*
 * Copies a caller's struct of options, which begins with its size in a size_t, to one of known bytes; NULL stands for
 * zeros. A caller that was built with an older header has a smaller struct: the fields that it lacks are zero. -E2BIG:
 * the struct is larger, and a byte that this version does not know is not zero; -EINVAL: the size is not set.
 */
int csight_options_read(void *ret, size_t known, const void *from);

#endif
