/* SPDX-License-Identifier: MIT */
#ifndef CSIGHT_DECODE_OUTPUT_COUNTERS_H
#define CSIGHT_DECODE_OUTPUT_COUNTERS_H

#include "lib/perfdata/read.h"
#include "lib/store/store.h"

/*
 * Writes the samples of counters to a store, as notes: of each thread, how much it has counted since its first sample;
 * and frequencies, which belong to no thread. shift: time of the records minus that of the store.
 */
int output_counters_put(const struct pd_contents *c, uint64_t shift, struct store_writer *w);

#endif
