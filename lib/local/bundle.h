/* SPDX-License-Identifier: MIT */
/*
 * A bundle: one tar file with a trace and all files that its decode opened, from which another machine decodes the same
 * without looking at its own. csight-formats(5) describes it. Functions return negative errno.
 */
#ifndef CSIGHT_LOCAL_BUNDLE_H
#define CSIGHT_LOCAL_BUNDLE_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/json.h"
#include "lib/decoder/decoder.h"

#define BUNDLE_INDEX "csight-bundle.json"

/* The files that a decode was given: the last one for each request, as a wrong one is asked for again. */
struct bundle_files {
	struct bundle_file *list;
	size_t n, capacity;
	int error;
};

void bundle_keep(struct bundle_files *files, const struct decoder_event *request, int fd);
void bundle_files_done(struct bundle_files *files);

/* What a bundle is made of. Descriptors stay the caller's. */
struct bundle_parts {
	int trace;            /* the perf.data file; -1: it is redacted */
	int directory;        /* of the snapshot, with the code that it captured; or -1 */
	int bundle;           /* another bundle, which has that code, or -1 */
	int store;            /* the redacted store, or -1 */
	int core;             /* a core dump, or -1 */
	const char *snapshot; /* text of snapshot.json, or NULL */
	const struct bundle_files *files;
};

int bundle_write(int fd, const struct bundle_parts *parts);

/* True if a file begins as a bundle. */
bool bundle_is(int fd);

/*
 * Copies a file of a bundle to an unnamed temporary file. Returns the descriptor. -ENOENT: the bundle does not have it;
 * -EBADMSG.
 */
int bundle_open(int fd, const char *name);

/* Opens so what the first decode was given for a request. index: the parsed BUNDLE_INDEX of this bundle. */
int bundle_find(json_object *index, int fd, const struct decoder_event *request);

#endif
