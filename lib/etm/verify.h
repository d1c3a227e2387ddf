/*
 * Both engines at once: what OpenCSD gives goes to the sink, and the native engine's is compared with it, element for
 * element. What one of them does not take is not compared.
 */
#ifndef CSIGHT_ETM_VERIFY_H
#define CSIGHT_ETM_VERIFY_H

#include "lib/etm/engine.h"

extern const struct engine_ops engine_verify;

/* How many elements were alike; and, where one was not, what there is to say about the first: lines, or NULL. */
const char *verify_report(const struct engine *e, uint64_t *ret_alike);

#endif
