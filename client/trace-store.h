/* SPDX-License-Identifier: MIT */
/*
 * The store of a trace that no daemon has decoded: csight-decode decodes it, and the user's cache (decode-cache.h)
 * keeps the result for the next use. The key of an entry is a digest of all that decides the result: the contents of
 * the input, the options, csight-decode itself. Of the other files that a decode reads, the programs and libraries, it
 * is checked that they are the same.
 */
#ifndef CSIGHT_CLIENT_TRACE_STORE_H
#define CSIGHT_CLIENT_TRACE_STORE_H

#include "client/client.h"
#include "lib/store/store.h"

/*
 * Opens the store of a file or directory of trace, with the options in c->trace; prints what the decode lacked, and
 * errors. Returns 0 or an exit status. The caller closes both.
 */
int trace_store_open(struct client *c, const char *name, int *ret_fd, struct store **ret);

#endif
