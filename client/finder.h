/*
 * Finds the files that a trace ran through, and their debug files: in a snapshot, by build-id or name in directories
 * that the user gives, at their paths, below /usr/lib/debug, and by debuginfod where the user asks. Nothing is parsed
 * here: whether a file is the wanted one is for csight-decode to tell, which asks for another one where it is not.
 */
#ifndef CSIGHT_CLIENT_FINDER_H
#define CSIGHT_CLIENT_FINDER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/json.h"
#include "lib/decoder/decoder.h"

enum { FINDER_DIRS_MAX = 32 };

struct finder {
	int dir;               /* of a snapshot, or -1 */
	json_object *snapshot; /* or NULL */
	const char *dirs[FINDER_DIRS_MAX];
	size_t n_dirs;
	bool debuginfod;
	/* Candidates for the image that was debuginfod_asked for last. */
	char **paths;
	size_t n_paths, next;
	int64_t index;         /* plus one */
	bool debug;            /* its debug file, rather */
	bool debuginfod_asked; /* debuginfod */
};

/* A descriptor, or -1 and a reason. Further questions for the same image give further candidates. */
int finder_open(struct finder *f, const struct decoder_event *question, char *ret_reason, size_t size);
void finder_done(struct finder *f);

#endif
