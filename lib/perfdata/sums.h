/* SPDX-License-Identifier: MIT */
/*
 * Checksums at the end of a perf.data file that csightd wrote, after all parts that perf reads. They detect damage by a
 * disk or a transfer. The spans, in order, cover every byte before the table:
 *
 *   span   u32 size, with the highest bit set if the span holds only trace; u32 CRC-32 as in gzip
 *   end    u64 offset of the first span entry, u32 number of spans, u32 CRC-32 of the table up to here, u64 magic
 */
#ifndef CSIGHT_PERFDATA_SUMS_H
#define CSIGHT_PERFDATA_SUMS_H

#include "lib/base/buf.h"

struct sums {
	struct buf spans;
	uint32_t size, crc; /* of the current span */
	bool trace;
};

/* Adds the next bytes of the file. */
void sums_add(struct sums *s, const void *data, size_t size);

/* Ends the current span; trace: the next one holds only trace. */
void sums_cut(struct sums *s, bool trace);

/* Replaces the checksum of the first span, whose bytes were written again. */
void sums_first(struct sums *s, const void *data, size_t size);

/* Appends the table to *to; at is the offset in the file at which it will be written. */
void sums_end(struct sums *s, uint64_t at, struct buf *to);

struct stretch {
	uint64_t from, to;
	bool trace;
};

/*
 * Reads the whole file and appends its damaged ranges to *ret, as struct stretch, in order. Returns 1; 0 if the file
 * has no checksums; -EBADMSG if the table itself is damaged.
 */
int sums_check(int fd, uint64_t size, struct buf *ret);

/* Computes the CRC-32 of a whole file. -EFBIG: it has more than limit bytes. */
int sums_file(int fd, uint64_t limit, uint32_t *ret);

#endif
