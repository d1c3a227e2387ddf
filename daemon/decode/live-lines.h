/* SPDX-License-Identifier: MIT */
/* The output of a recording that is followed in rounds (live-rounds.h): the calls of each thread, as lines. */
#ifndef CSIGHT_DECODE_LIVE_LINES_H
#define CSIGHT_DECODE_LIVE_LINES_H

#include "daemon/decode/call-lines.h"
#include "daemon/decode/output.h"
#include "daemon/decode/input.h"
#include "lib/code/region-map.h"

struct live_lines;

/* Both are borrowed. The output is owned by the caller, who frees it by its operation. */
int live_lines_new(struct region_map *regions, struct call_lines *lines, struct output **ret);

/* Sets the input of the round whose elements follow; NULL: none do. */
void live_lines_open(void *output, struct input *round);

/* All elements of the round have been emitted: writes also what threads did that do not run at its end. */
int live_lines_decoded(void *output, uint64_t until);

#endif
