/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a file that other programs may change. Blocks are read by pread and cached, except for reads of a page
 * or more. A file that was truncated returns fewer bytes.
 */
#ifndef CSIGHT_CODE_BYTES_H
#define CSIGHT_CODE_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes;

/* fd stays the caller's and must stay open until bytes_free(). -EINVAL: not a regular file; -ENOMEM. */
int bytes_new(int fd, struct bytes **ret);
struct bytes *bytes_free(struct bytes *b);

uint64_t bytes_size(const struct bytes *b);

/* Returns the number of bytes read, at most size; fewer at the end of the file or on an error. */
size_t bytes_read(struct bytes *b, uint64_t offset, void *ret, size_t size);

#endif
