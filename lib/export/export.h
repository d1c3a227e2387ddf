/* From the store to files and terminals: one writer a format. Memory does not grow with the trace. */
#ifndef CSIGHT_EXPORT_H
#define CSIGHT_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/store/store.h"

enum { EXPORT_BUDGET = 1000000, EXPORT_TREE_DEPTH = 12, EXPORT_TREE_WIDTH = 16, EXPORT_TREE_DEPTH_MAX = 200 };

/* Start from EXPORT_DEFAULTS. */
struct export_options {
	uint64_t since, until; /* ns of the trace's clock; until 0: to the end */
	int64_t tid;           /* -1: all */
	uint64_t budget;       /* about so many slices at most, the last ones; since wins where it is later */
	bool colour;           /* tree: ANSI colours */
	unsigned depth, width; /* tree: levels shown, callees shown of one caller */
};

#define EXPORT_DEFAULTS                                                                                    \
	{                                                                                                  \
		.tid = -1, .budget = EXPORT_BUDGET, .depth = EXPORT_TREE_DEPTH, .width = EXPORT_TREE_WIDTH \
	}

struct export_result {
	uint64_t slices, gaps;
	uint64_t threads;
	uint64_t since, until; /* what the file covers */
	bool cut;              /* the budget left out an earlier part */
};

struct export_ops {
	const char *name;   /* as --to and --format name it */
	const char *suffix; /* of its files, with the dot */
	const char *about;
	int (*write)(const struct store *s, int fd, const struct export_options *o, struct export_result *ret);
};

extern const struct export_ops export_perfetto, export_tree, export_fxt, export_speedscope, export_folded, export_pprof;

/* NULL: no such format. */
const struct export_ops *export_find(const char *name);

#endif
