/* SPDX-License-Identifier: MIT */
/* Finds sync points of the emulated trace unit by their times, without a decode of the trace between them. */
#ifndef CSIGHT_EMU_ETM_SYNC_H
#define CSIGHT_EMU_ETM_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETM_SYNC_MAX = 27 }; /* bytes of a sync point up to its timestamp */

/*
 * Finds the last sync point that etm_sync() wrote among the first `begins` of n bytes, and whose timestamp is at most
 * latest. The bytes may be any. Returns false if there is none.
 */
bool etm_sync_find(const uint8_t *bytes, size_t begins, size_t n, uint64_t latest, size_t *ret_at, uint64_t *ret_time);

#endif
