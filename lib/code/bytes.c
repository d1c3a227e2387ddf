/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/util.h"
#include "lib/code/bytes.h"

/* SIZE_MAX_READ bounds the table of blocks; bytes beyond it are not read. */
#define BLOCK_SIZE ((size_t)16 << 10)
#define PAGE_SIZE 4096
#define SIZE_MAX_READ ((uint64_t)64 << 30)

struct block {
	uint8_t *data;
	uint32_t size;
};

struct bytes {
	int fd;
	uint64_t size;
	struct block *blocks;
	size_t n_blocks;
};

int bytes_new(int fd, struct bytes **ret)
{
	struct bytes *b;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < 0)
		return -EINVAL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->fd = fd;
	b->size = MIN((uint64_t)st.st_size, SIZE_MAX_READ);
	b->n_blocks = (size_t)((b->size + BLOCK_SIZE - 1) / BLOCK_SIZE);
	b->blocks = calloc(b->n_blocks + 1, sizeof(*b->blocks));
	if (!b->blocks) {
		free(b);
		return -ENOMEM;
	}
	*ret = b;
	return 0;
}

struct bytes *bytes_free(struct bytes *b)
{
	if (!b)
		return NULL;
	for (size_t i = 0; i < b->n_blocks; i++)
		free(b->blocks[i].data);
	free(b->blocks);
	free(b);
	return NULL;
}

uint64_t bytes_size(const struct bytes *b)
{
	return b->size;
}

static size_t read_file_at(const struct bytes *b, uint64_t offset, uint8_t *ret, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = pread(b->fd, ret + have, size - have, (off_t)(offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

static const struct block *block_at(struct bytes *b, size_t index)
{
	struct block *block = &b->blocks[index];

	if (block->data)
		return block;
	block->data = malloc(BLOCK_SIZE);
	if (block->data)
		block->size = (uint32_t)read_file_at(b, index * BLOCK_SIZE, block->data, BLOCK_SIZE);
	return block;
}

size_t bytes_read(struct bytes *b, uint64_t offset, void *ret, size_t size)
{
	size_t have = 0;

	/* A caller that reads that much at once keeps it; a block here would be a second copy. */
	if (size >= PAGE_SIZE && offset < b->size)
		return read_file_at(b, offset, ret, (size_t)MIN((uint64_t)size, b->size - offset));
	while (have < size && offset + have < b->size && offset + have >= offset) {
		uint64_t at = offset + have;
		const struct block *block = block_at(b, (size_t)(at / BLOCK_SIZE));
		size_t inside = (size_t)(at % BLOCK_SIZE), n;

		if (!block->data || inside >= block->size)
			break;
		n = MIN(size - have, block->size - inside);
		memcpy((uint8_t *)ret + have, block->data + inside, n);
		have += n;
	}
	return have;
}
