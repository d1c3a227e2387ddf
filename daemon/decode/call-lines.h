/* SPDX-License-Identifier: MIT */
/*
 * Writes calls as lines while they are decoded: each call when it has returned, so a function stands below those that
 * it called. csight(1) describes the text, csight-formats(5) the JSON. All threads share one struct call_lines.
 */
#ifndef CSIGHT_DECODE_CALL_LINES_H
#define CSIGHT_DECODE_CALL_LINES_H

#include "lib/base/hash.h"
#include "lib/calls/calls.h"
#include "lib/export/out.h"

struct call_lines_options {
	bool json, full_names;
	uint64_t longer;      /* only calls of at least this time, ns */
	uint64_t depth;       /* only this many functions, from the outermost known one on; 0: all */
	const char *function; /* a shell pattern: only calls of these functions; NULL: all */
};

struct call_line_name;

struct call_lines {
	struct call_lines_options options;
	struct out out;
	struct hash numbers; /* of the regions */
	struct call_line_name *names;
	size_t n_names, names_room;
	uint64_t begin; /* of the first event; lines have times since then */
	uint64_t written, left_out;
	bool begun;
};

/* The calls that are open. */
struct call_line_frame {
	const struct region *function;
	uint64_t time, instructions, bound;
	uint8_t kind;
	bool inlined, began_before, uncertain;
};

struct call_lines_thread {
	struct call_lines *lines;
	uint32_t tid;
	struct call_line_frame *stack;
	size_t n, room;
	uint64_t time, instructions; /* where the segment began */
	bool uncertain;
};

/* Writes the heading. */
void call_lines_begin(struct call_lines *l, int fd, const struct call_lines_options *options);

/* Consumes an event of a thread, the user; as struct calls_sink has it. */
int call_lines_event(void *user, const struct call_event *e);

/* Writes what is complete. Returns the first error of writing. */
int call_lines_flush(struct call_lines *l);
void call_lines_done(struct call_lines *l);

#endif
