/* SPDX-License-Identifier: MIT */
/* The part of a trace that a verb shows or exports: --since, --until, --thread and --budget. */
#ifndef CSIGHT_CLIENT_SELECTION_H
#define CSIGHT_CLIENT_SELECTION_H

#include "client/client.h"
#include "lib/export/export.h"

struct selection {
	/* arguments of the options; NULL: not given */
	const char *since, *until, *last, *thread, *budget;
	const char *from; /* a function: begin at its first call */
};

/* Parses a duration: 1.5s, 20ms, 100us, 5ns; without a unit seconds. Returns 0 or -EINVAL. */
int selection_parse_duration(const char *text, uint64_t *ret);

/* Parses a time: "20ms" after first, "-20ms" before last, "@NS" on the clock of the trace. Returns 0 or -EINVAL. */
int selection_parse_time(const char *text, uint64_t first, uint64_t last, uint64_t *ret);

/*
 * Sets the export options that the selection means for this store, and refuses times that select nothing. Returns 0 or
 * an exit status.
 */
int selection_apply(struct client *c, const struct selection *v, const struct store *s, struct export_options *o);

#define SELECTION_SINCE_HELP "start time: 1.5s or 20ms after the beginning, -20ms before the end, trigger-20ms"
#define SELECTION_UNTIL_HELP "end time"
#define SELECTION_LAST_HELP "only the last part, such as 10ms"
#define SELECTION_THREAD_HELP "only this thread, by ID or name"
#define SELECTION_BUDGET_HELP "only about the last N slices; 0: all"

#endif
