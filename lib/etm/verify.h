/* SPDX-License-Identifier: MIT */
/*
 * Runs both engines on the same bytes. OpenCSD's elements go to the sink; the native engine's are compared with them
 * one by one. The comparison ends at the first difference, and where the native engine does not support the stream.
 */
#ifndef CSIGHT_ETM_VERIFY_H
#define CSIGHT_ETM_VERIFY_H

#include "lib/etm/engine.h"

extern const struct engine_ops verify_engine_ops;

/* Returns a description of the first difference, or NULL; *ret_equal is the number of equal elements before it. */
const char *verify_report(const struct engine *e, uint64_t *ret_equal);

#endif
