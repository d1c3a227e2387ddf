/* SPDX-License-Identifier: MIT */
/*
 * Finds the image files of a trace (programs and libraries) and their debug files: in the snapshot, by build-id or name
 * in directories that the user names, at their recorded paths, in the places of lib/decoder/debug-places.h, and from
 * servers. No file is parsed here: csight-decode checks each candidate and asks for the next one if it is the wrong
 * file.
 */
#ifndef CSIGHT_LOCAL_FINDER_H
#define CSIGHT_LOCAL_FINDER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/json.h"
#include "lib/decoder/decoder.h"

enum { FINDER_DIRS_MAX = 32 };

struct finder {
	int dir;                               /* directory of the snapshot, or -1; owned by the caller */
	json_object *snapshot;                 /* snapshot.json, or NULL; owned by the caller */
	const char *dirs[FINDER_DIRS_MAX + 1]; /* the last one: of perf record --kcore */
	size_t n_dirs;
	json_object *bundle; /* the index of a bundle, which has all files; or NULL */
	int bundle_fd;       /* that bundle; owned by the caller */
	/* Candidates for the most recently requested image. */
	char **paths;
	size_t n_paths, next;
	int64_t index; /* index of that image plus one */
	bool debug;    /* its debug file was requested */
	bool asked;    /* fetch() was called for that image */
	/* Fetches a file by its build-id from servers, to a path; or NULL, set by the caller. */
	bool (*fetch)(const char *build_id, bool debug, char *ret, size_t size);
	const char *opened; /* path of the file opened last; NULL: none, or a copy in the snapshot */
};

/*
 * Opens a candidate for the image or debug file that DECODER_IMAGE requests. Repeated requests for the same image
 * return further candidates. Returns a descriptor that the caller closes, or -1 with a reason.
 */
int finder_open(struct finder *f, const struct decoder_event *request, char *ret_reason, size_t size);
void finder_done(struct finder *f);

#endif
