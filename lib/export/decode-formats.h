/* SPDX-License-Identifier: MIT */
/*
 * The output formats of a decode. This table is the only list of them: `csight decode --help`, the validation of --to,
 * and the dispatch in csight-decode come from it. csight-formats(5) describes the formats.
 */
#ifndef CSIGHT_EXPORT_DECODE_FORMATS_H
#define CSIGHT_EXPORT_DECODE_FORMATS_H

#include "lib/export/export.h"

/* What a format is made of. */
enum decode_format_basis {
	DECODE_FORMAT_FROM_INPUT,    /* a description of the input, alone in its job: nothing is decoded */
	DECODE_FORMAT_FROM_PACKETS,  /* packets of each trace source, alone in its job */
	DECODE_FORMAT_FROM_ELEMENTS, /* elements */
	DECODE_FORMAT_FROM_LIVE,     /* calls, line by line while the program runs, alone in its job */
	DECODE_FORMAT_FROM_CALLS,    /* calls of functions: a store, or an export of one */
};

enum decode_format_content { DECODE_FORMAT_TEXT, DECODE_FORMAT_BINARY };

/*
 * The formats that --to accepts, as FIRST(ID, name, basis, content, export) for the default and MORE() for each other
 * one. export is the struct export_ops that writes the format from a store, or NULL.
 */
#define DECODE_FORMATS(FIRST, MORE)                                                                      \
	FIRST(ELEMENTS, "elements", DECODE_FORMAT_FROM_ELEMENTS, DECODE_FORMAT_TEXT, NULL)               \
	MORE(PCS, "pcs", DECODE_FORMAT_FROM_ELEMENTS, DECODE_FORMAT_TEXT, NULL)                          \
	MORE(PACKETS, "packets", DECODE_FORMAT_FROM_PACKETS, DECODE_FORMAT_TEXT, NULL)                   \
	MORE(BRANCHES, "branches", DECODE_FORMAT_FROM_PACKETS, DECODE_FORMAT_TEXT, NULL)                 \
	MORE(BRANCHES_BIN, "branches-bin", DECODE_FORMAT_FROM_PACKETS, DECODE_FORMAT_BINARY, NULL)       \
	MORE(AUTOFDO, "autofdo", DECODE_FORMAT_FROM_ELEMENTS, DECODE_FORMAT_TEXT, NULL)                  \
	MORE(CALLS, "calls", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_TEXT, &export_tree)                 \
	MORE(PERFETTO, "perfetto", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_BINARY, &export_perfetto)     \
	MORE(FXT, "fxt", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_BINARY, &export_fxt)                    \
	MORE(SPEEDSCOPE, "speedscope", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_TEXT, &export_speedscope) \
	MORE(CHROME, "chrome", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_TEXT, &export_chrome)             \
	MORE(PPROF, "pprof", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_BINARY, &export_pprof)              \
	MORE(FOLDED, "folded", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_TEXT, &export_folded)             \
	MORE(PARQUET, "parquet", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_BINARY, &export_parquet)        \
	MORE(PARQUET_FUNCTIONS, "parquet-functions", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_BINARY,     \
	     &export_parquet_functions)                                                                  \
	MORE(STORE, "store", DECODE_FORMAT_FROM_CALLS, DECODE_FORMAT_BINARY, NULL)                       \
	MORE(NONE, "none", DECODE_FORMAT_FROM_ELEMENTS, DECODE_FORMAT_TEXT, NULL)

#define DECODE_FORMAT_ID_(id, name, basis, content, export) DECODE_FORMAT_##id,

// clang-format off
enum decode_format_id {
	DECODE_FORMATS(DECODE_FORMAT_ID_, DECODE_FORMAT_ID_)
	/* For `csight info` and `csight tail`; --to does not accept these: */
	DECODE_FORMAT_INFO,
	DECODE_FORMAT_INFO_JSON,
	DECODE_FORMAT_LIVE,
	DECODE_FORMAT_LIVE_JSON,
	DECODE_FORMAT_COUNT,
};
// clang-format on

/* The names as one string literal: "elements (the default), pcs, ...". */
#define DECODE_FORMAT_HELP_FIRST_(id, name, basis, content, export) name " (default)"
#define DECODE_FORMAT_HELP_MORE_(id, name, basis, content, export) ", " name
#define DECODE_FORMAT_HELP DECODE_FORMATS(DECODE_FORMAT_HELP_FIRST_, DECODE_FORMAT_HELP_MORE_)

struct decode_format {
	enum decode_format_id id;
	const char *name; /* for --to and in the start message of a job */
	enum decode_format_basis basis;
	enum decode_format_content content;
	const struct export_ops *export; /* writes it from a store; or NULL */
};

/* Indexed by ID. */
extern const struct decode_format decode_formats[DECODE_FORMAT_COUNT];

/* Returns NULL for an unknown name. */
const struct decode_format *decode_format_find(const char *name);

#endif
