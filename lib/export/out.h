/* SPDX-License-Identifier: MIT */
/* The output file of an export, written in large pieces. */
#ifndef CSIGHT_EXPORT_OUT_H
#define CSIGHT_EXPORT_OUT_H

#include "lib/base/buf.h"

/* Errors stick in `error`. pack, if set, converts a piece into the bytes to be written. */
struct out {
	int fd;
	struct buf buf;
	int error;
	int (*pack)(const struct buf *piece, struct buf *ret);
};

/* out_flush_if_full() writes the buffer once it is large. out_finish() writes the rest and returns the first error. */
void out_flush_if_full(struct out *o);
int out_finish(struct out *o);
void out_done(struct out *o);

#endif
