/* The part of a trace that show, export and decode are asked for: --since, --until, --thread, --budget. */
#ifndef CSIGHT_CLIENT_SELECTION_H
#define CSIGHT_CLIENT_SELECTION_H

#include "client/client.h"
#include "lib/export/export.h"

struct selection {
	const char *since, *until, *thread, *budget; /* as given; NULL: not */
};

/* 1.5s, 20ms, 100us, 5ns; without a unit seconds. -EINVAL. */
int selection_parse_duration(const char *text, uint64_t *ret);

/* Fills in what was given, with the store's own beginning and end; 0 or an exit status. */
int selection_apply(struct client *c, const struct selection *v, const struct store *s, struct export_options *o);

#define SELECTION_SINCE_HELP "only from this time on: 1.5s, 20ms from the start; -20ms before the end"

#endif
