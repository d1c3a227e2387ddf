/* What read.c (tables), iter.c (events) share. */
#ifndef CSIGHT_STORE_READER_H
#define CSIGHT_STORE_READER_H

#include "lib/base/reader.h"
#include "lib/store/format.h"
#include "lib/store/store.h"

struct block {
	uint64_t offset, first, last, slices, bound, segments;
	uint32_t size, events, roots, left;
};

struct segment {
	uint64_t time, instructions, first_root;
	uint32_t n_roots;
};

struct thread {
	struct store_thread shown;
	uint64_t first_block, n_blocks, first_segment, n_segments;
};

struct store {
	int fd;
	uint64_t size;
	char *meta, *strings;
	size_t meta_size, strings_size; /* without the NUL that was added */
	struct store_function *functions;
	size_t n_functions;
	struct thread *threads;
	size_t n_threads;
	struct block *blocks;
	size_t n_blocks;
	struct segment *segments;
	size_t n_segments;
	uint32_t *roots;
	size_t n_roots;
};

/* Exactly size bytes of the file. */
int store_read_at(const struct store *s, uint64_t offset, void *ret, size_t size);

#endif
