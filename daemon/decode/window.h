/* SPDX-License-Identifier: MIT */
/*
 * The wanted part of a snapshot's trace, of which snapshot.json has the beginning, "since". A slice of a trace unit
 * that began earlier is decoded from the last sync point before it; one that ended earlier is not decoded.
 */
#ifndef CSIGHT_DECODE_WINDOW_H
#define CSIGHT_DECODE_WINDOW_H

#include "daemon/decode/input.h"

/*
 * Finds the offset at which the decode of a piece begins: that of the last sync point before the wanted part; the size
 * of the piece if it ended before that part; 0 if neither is known. Returns 0 or negative errno.
 */
int window_begin(struct input *in, const struct stream *s, const struct pd_piece *p, uint64_t *ret);

#endif
