/* SPDX-License-Identifier: MIT */
/*
 * Prints calls for a terminal in the order in which they begin, callees below their callers. Calls that follow one
 * another share a line if they are equal: of one function, with equal calls beneath, as far as these are printed. Slow
 * calls (store_is_slow) and those that are not known from enter to leave have lines of their own.
 *
 * Memory use does not grow with the trace: it is read twice, first to find when long calls end.
 */
#ifndef CSIGHT_TIMELINE_H
#define CSIGHT_TIMELINE_H

#include "lib/export/export.h"

/*
 * Writes the calls of the selected threads and times, thread by thread. Of the options, depth, colour, columns, ascii,
 * names, tail and bare apply besides the selection. Negative errno.
 */
int timeline_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret);

#endif
