/* SPDX-License-Identifier: MIT */
/* The lines of a timeline: timeline.c makes them of events, timeline-print.c prints them. */
#ifndef CSIGHT_TIMELINE_PRIVATE_H
#define CSIGHT_TIMELINE_PRIVATE_H

#include "lib/base/fit.h"
#include "lib/export/out.h"
#include "lib/export/timeline.h"
#include "lib/export/walk.h"

enum timeline_type { TIMELINE_CALL, TIMELINE_GAP, TIMELINE_DEEPER, TIMELINE_NOTE, TIMELINE_MARK };

/* A line: a call or several equal ones, a gap, or how many calls are deeper than the limit. */
struct timeline_line {
	enum timeline_type type;
	uint32_t function; /* of calls; of a note, its index */
	uint32_t level;
	uint32_t size; /* number of lines of it and beneath it, once it is complete */
	uint8_t kind;  /* enum call_kind or gap_kind */
	bool slow, partial, unfinished, trigger;
	uint64_t time, ns, bound;
	uint64_t each;  /* calls in one call of the line above */
	uint64_t total; /* calls in all that share these lines; deeper: their number */
};

/* What the first reading finds in a thread. */
struct timeline_summary {
	uint64_t calls, gaps, uncertain;
	uint64_t first, last;
	uint64_t gaps_of[STORE_GAP_KINDS], gap_ns[STORE_GAP_KINDS];
};

struct timeline_output {
	struct out out;
	const struct export_walk *walk;
	const struct export_options *options;
	struct fit fit;
	uint64_t start;   /* of the whole trace */
	int time_columns; /* of times */
};

/* Prints the least and the greatest value of what belongs to no thread, such as the frequency of a CPU. */
void timeline_print_levels(struct timeline_output *o);
void timeline_print_head(struct timeline_output *o, size_t thread, const struct timeline_summary *s);
void timeline_print_line(struct timeline_output *o, const struct timeline_line *line);

/* Prints the trigger of the snapshot and the end of the process, if they belong to the thread. */
void timeline_print_ending(struct timeline_output *o, size_t thread);

#endif
