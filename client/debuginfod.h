/* SPDX-License-Identifier: MIT */
/*
 * Fetches files by build-id from the servers of $DEBUGINFOD_URLS, into the cache that gdb, perf and debuginfod-find use
 * as well. libdebuginfod is loaded at the first use, as elfutils does it, so that it is not required.
 */
#ifndef CSIGHT_CLIENT_DEBUGINFOD_H
#define CSIGHT_CLIENT_DEBUGINFOD_H

#include <stdbool.h>
#include <stddef.h>

/* True if $DEBUGINFOD_URLS names servers. */
bool debuginfod_wanted(void);

/* Fetches a debug file, or else the program or library itself; its path goes to ret. False: no server has it. */
bool debuginfod_fetch(const char *build_id, bool debug, char *ret, size_t size);

#endif
