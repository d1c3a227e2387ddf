/* SPDX-License-Identifier: MIT */
/* Error bounds of times, from those of the blocks. */
#include "lib/store/reader.h"

/* Returns the bound of a time of a thread. */
static uint64_t bound_at(const struct store *s, size_t thread, uint64_t time)
{
	const struct stored_block *blocks = s->blocks + s->threads[thread].first_block;
	uint64_t low = 0, high = s->threads[thread].n_blocks, bound = 0;

	/* Find the first block that ends at or after the time; the next one may begin with it. */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (blocks[middle].last < time)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < s->threads[thread].n_blocks && blocks[low].first <= time; low++)
		bound = MAX(bound, blocks[low].bound);
	return bound;
}

uint64_t store_duration_bound(const struct store *s, size_t thread, uint64_t from, uint64_t to)
{
	return thread < s->n_threads ? add_saturating(bound_at(s, thread, from), bound_at(s, thread, to)) : 0;
}

/* Raises the bounds of all functions that are left in a block to that of the block. */
static int read_leaves(const struct store *s, const struct stored_block *b, uint64_t *bounds)
{
	_cleanup_free_ uint8_t *leaves = malloc(b->leaves_size + (size_t)1);
	uint64_t function = 0, step;
	struct reader r;
	int rc = leaves ? 0 : -ENOMEM;

	if (rc == 0)
		rc = store_read_checked(s, b->offset + b->size, leaves, b->leaves_size, b->leaves_checksum);
	if (rc < 0)
		return rc;
	r = reader_of(leaves, b->leaves_size);
	while (rd_left(&r)) {
		uint64_t *bound;

		if (rd_varint(&r, &step) < 0 || step >= s->n_functions - function)
			return -EBADMSG;
		function += step;
		bound = &bounds[s->merged ? s->merged[function].function : function];
		*bound = MAX(*bound, add_saturating(b->bound, b->bound));
	}
	return 0;
}

int store_function_bounds(const struct store *s, uint64_t *bounds)
{
	int rc = 0;

	for (size_t i = 0; i < s->n_functions; i++) {
		const struct store_function *f = &s->functions[i];

		bounds[i] = f->calls ? store_duration_bound(s, f->longest_thread, f->longest_enter,
							    add_saturating(f->longest_enter, f->longest_ns))
				     : 0;
	}
	for (size_t i = 0; rc == 0 && i < s->n_blocks; i++)
		rc = s->blocks[i].bound ? read_leaves(s, &s->blocks[i], bounds) : 0;
	return rc;
}
