/* SPDX-License-Identifier: MIT */
/* Export from the store to files and terminals: one writer per format. Memory use does not grow with the trace. */
#ifndef CSIGHT_EXPORT_H
#define CSIGHT_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/export/names.h"
#include "lib/store/store.h"

enum { EXPORT_BUDGET = 1000000, EXPORT_TREE_DEPTH = 12, EXPORT_TREE_WIDTH = 16, EXPORT_TREE_DEPTH_MAX = 200 };

/* Initialise with EXPORT_DEFAULTS. */
struct export_options {
	uint64_t since, until; /* ns in the clock of the trace; until 0: to the end */
	int64_t tid;           /* -1: all threads */
	/* largest number of slices, approximately; earlier ones are left out; 0: no limit */
	uint64_t budget;
	bool colour;           /* tree, timeline: ANSI colours */
	unsigned depth, width; /* tree, timeline: levels of calls; tree: callees of one caller */
	/* tree, timeline: columns of a line, 0 for no limit; the ellipsis is "..."; short names, NULL for full ones */
	size_t columns;
	bool ascii;
	const struct names *names;
	uint64_t tail;        /* timeline: only the last calls to begin of each thread, with their callers; 0: all */
	const char *host;     /* parquet: where the snapshot was taken; NULL: unknown */
	int64_t bare;         /* timeline: a thread whose calls from before the exported time get no lines; -1: none */
	uint64_t bare_events; /* nor do those of as many events at its beginning */
};

#define EXPORT_DEFAULTS                                                                                                \
	{                                                                                                              \
		.tid = -1, .bare = -1, .budget = EXPORT_BUDGET, .depth = EXPORT_TREE_DEPTH, .width = EXPORT_TREE_WIDTH \
	}

struct export_result {
	uint64_t slices, gaps;
	uint64_t threads;
	uint64_t since, until; /* the time covered by the file */
	bool cut;              /* the budget excluded an earlier part */
};

struct export_ops {
	const char *name;   /* as in --to and --format */
	const char *suffix; /* of its files, with the dot */
	const char *about;
	int (*write)(const struct store *s, int fd, const struct export_options *o, struct export_result *ret);
	bool whole; /* no viewer loads the file, so the default is no budget */
};

extern const struct export_ops export_perfetto, export_tree, export_fxt, export_speedscope, export_chrome,
    export_folded, export_pprof, export_parquet, export_parquet_functions;

/* Returns NULL for an unknown format. */
const struct export_ops *export_find(const char *name);

#endif
