/*
 * Checksums, behind everything of a perf.data that perf reads: they tell what csightd wrote from what a disk or a
 * transfer made of it. Every byte ahead of them is in one of the spans, in their order:
 *
 *   span   u32 size, the highest bit set where it is trace and nothing else; u32 CRC-32, as of gzip
 *   end    u64 where the spans are told, u32 how many there are, u32 CRC-32 of all that from there on, u64 magic
 */
#ifndef CSIGHT_PERFDATA_SUMS_H
#define CSIGHT_PERFDATA_SUMS_H

#include "lib/base/buf.h"

struct sums {
	struct buf spans;
	uint32_t size, crc; /* of the span at hand */
	bool trace;
};

/* The bytes of the file, in order. */
void sums_add(struct sums *s, const void *data, size_t size);

/* A span ends; whether what follows is trace. */
void sums_cut(struct sums *s, bool trace);

/* The first span was written anew. */
void sums_first(struct sums *s, const void *data, size_t size);

/* What is to stand at the end of the file, at bytes from its start. */
void sums_end(struct sums *s, uint64_t at, struct buf *to);

struct stretch {
	uint64_t from, to;
	bool trace;
};

/*
 * Reads the whole file; what is not as it was goes to *ret, as struct stretch, in order. 1; 0: the file has no
 * checksums; -EBADMSG: it has, and they are not to be believed themselves.
 */
int sums_check(int fd, uint64_t size, struct buf *ret);

/* That of a whole file. -EFBIG: there is more than limit. */
int sums_file(int fd, uint64_t limit, uint32_t *ret);

#endif
