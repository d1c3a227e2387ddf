/*
 * The bytes of a file that others may change: read by pread, a block at a time, and kept; a page or more that is asked
 * for at once is not. A file that turns out shorter than it was gives fewer bytes.
 */
#ifndef CSIGHT_CODE_BYTES_H
#define CSIGHT_CODE_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes;

/* fd stays the caller's and must stay open. -EINVAL: not a regular file; -ENOMEM. */
int bytes_new(int fd, struct bytes **ret);
struct bytes *bytes_free(struct bytes *b);

uint64_t bytes_size(const struct bytes *b);

/* How many of size bytes at offset there are. */
size_t bytes_read(struct bytes *b, uint64_t offset, void *ret, size_t size);

#endif
