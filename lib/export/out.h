/* The output file of an export, written in large pieces. */
#ifndef CSIGHT_EXPORT_OUT_H
#define CSIGHT_EXPORT_OUT_H

#include "lib/base/buf.h"

/* Output in large pieces; errors stick. pack, where there is one, makes of a piece what is written. */
struct out {
	int fd;
	struct buf buf;
	int error;
	int (*pack)(const struct buf *piece, struct buf *ret);
};

/* Writes when there is much; out_finish() the rest, and tells the first error. */
void out_flush_if_full(struct out *o);
int out_finish(struct out *o);
void out_done(struct out *o);

#endif
