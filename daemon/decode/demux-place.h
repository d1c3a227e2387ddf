/* SPDX-License-Identifier: MIT */
/* The thread and the time of a stretch, and who may see it. */
#ifndef CSIGHT_DECODE_DEMUX_PLACE_H
#define CSIGHT_DECODE_DEMUX_PLACE_H

#include "daemon/decode/demux-state.h"

/*
 * Determines the thread and the time of the stretch at the head of a feed. AUX slices of threads are ordered by their
 * records, everything else by timestamps.
 */
void demux_place_stretch(struct demux *d, struct feed *f, const struct element_unit *u);

/*
 * True if the stretch at the head of a feed has no time, and its thread has executed something on another CPU
 * meanwhile. *ret_gap: it may be that a stretch of the thread that is left out precedes it.
 */
bool demux_place_is_ambiguous(struct demux *d, struct feed *f, bool *ret_gap);

/* True if --thread selects the thread of the stretch. */
bool demux_place_is_wanted(const struct demux *d, const struct feed *f);

/* False for a thread of others in a shared sink: the tracks, and their number, are those of the target alone. */
bool demux_place_is_targets(const struct demux *d, const struct feed *f);

/* True if the unit may be emitted: of a shared sink, only if its time bounds lie within an interval of its thread. */
bool demux_place_is_shown(const struct demux *d, const struct feed *f, const struct element_unit *u);

#endif
