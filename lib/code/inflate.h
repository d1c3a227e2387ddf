/* SPDX-License-Identifier: MIT */
/* Decompress hostile bytes and append the result to a buffer, up to the buffer's limit. -EBADMSG, -EFBIG, -ENOMEM. */
#ifndef CSIGHT_CODE_INFLATE_H
#define CSIGHT_CODE_INFLATE_H

#include "lib/base/buf.h"
#include "lib/base/reader.h"

int inflate_xz(struct reader from, struct buf *to);
int inflate_zlib(struct reader from, struct buf *to);
int inflate_zstd(struct reader from, struct buf *to);

#endif
