/* SPDX-License-Identifier: MIT */
/* csight show --json: the calls and gaps of each thread. */
#ifndef CSIGHT_CLIENT_SHOW_JSON_H
#define CSIGHT_CLIENT_SHOW_JSON_H

#include "client/client.h"
#include "lib/export/export.h"

/*
 * Prints one JSON document: the snapshot, unless it is NULL, and the calls of the selected threads and times in the
 * order in which they end. Of the options, depth (0: all), tail and bare apply besides the selection. Negative errno.
 */
int show_json(const struct store *s, const struct export_options *o, const struct csight_object *snapshot);

#endif
