/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "lib/base/buf.h"
#include "lib/code/address-space.h"

enum { COMPARED_MAX = 256 };

/*
 * A segment tree. Its leaves are the intervals between adjacent cuts: the addresses at which a mapping starts or ends.
 * Each mapping is listed, in order of time, in the O(log n) nodes whose intervals add up to its own. A look-up searches
 * the nodes on the path from a leaf to the root.
 */
struct address_space {
	struct buf mappings; /* struct space_mapping; sorted by time when sealed */
	uint64_t *cuts;
	size_t n_cuts;
	size_t leaves;   /* a power of two, at least n_cuts - 1 */
	uint32_t *first; /* start of each node's list in lists; 2 * leaves + 1 entries */
	uint32_t *lists; /* the nodes' lists: indexes of mappings */
	/* For each list item: the first non-empty mapping from there on in the same list, else the end of the list. */
	uint32_t *next;
};

int address_space_new(struct address_space **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static void drop_index(struct address_space *s)
{
	free(s->cuts);
	free(s->first);
	free(s->lists);
	free(s->next);
	s->cuts = NULL;
	s->first = s->lists = s->next = NULL;
	s->n_cuts = 0;
}

struct address_space *address_space_free(struct address_space *s)
{
	if (!s)
		return NULL;
	buf_done(&s->mappings);
	drop_index(s);
	free(s);
	return NULL;
}

static size_t mapping_count(const struct address_space *s)
{
	return s->mappings.size / sizeof(struct space_mapping);
}

static const struct space_mapping *mapping_list(const struct address_space *s)
{
	return (const struct space_mapping *)s->mappings.data;
}

int address_space_add(struct address_space *s, const struct space_mapping *mapping)
{
	struct space_mapping p = *mapping;

	if (p.start >= p.end)
		return 0;
	drop_index(s);
	p.order = (uint32_t)mapping_count(s);
	buf_add(&s->mappings, &p, sizeof(p));
	return buf_error(&s->mappings);
}

static int compare_mappings(const void *left, const void *right)
{
	const struct space_mapping *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static int compare_numbers(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* Returns the index of the last cut at or before addr; SIZE_MAX: none. */
static size_t find_cut(const struct address_space *s, uint64_t addr)
{
	size_t low = 0, high = s->n_cuts;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->cuts[middle] <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/*
 * Visits the nodes that make up a mapping. Without s->lists, counts the mapping in first[]; with it, appends the
 * mapping to the lists, for which first[] is the write position.
 */
static void list_mapping(struct address_space *s, const struct space_mapping *p, uint32_t index)
{
	size_t low = s->leaves + find_cut(s, p->start), high = s->leaves + find_cut(s, p->end);

	for (; low < high; low /= 2, high /= 2) {
		size_t nodes[2], n = 0;

		if (low & 1)
			nodes[n++] = low++;
		if (high & 1)
			nodes[n++] = --high;
		while (n--) {
			if (s->lists)
				s->lists[s->first[nodes[n]]] = index;
			s->first[nodes[n]]++;
		}
	}
}

static int make_cuts(struct address_space *s, const struct space_mapping *mappings, size_t n)
{
	size_t kept = 0;

	s->cuts = calloc(2 * n + 1, sizeof(*s->cuts));
	if (!s->cuts)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		s->cuts[2 * i] = mappings[i].start;
		s->cuts[2 * i + 1] = mappings[i].end;
	}
	qsort(s->cuts, 2 * n, sizeof(*s->cuts), compare_numbers);
	for (size_t i = 0; i < 2 * n; i++)
		if (!kept || s->cuts[kept - 1] != s->cuts[i])
			s->cuts[kept++] = s->cuts[i];
	s->n_cuts = kept;
	for (s->leaves = 1; s->leaves < kept;)
		s->leaves *= 2;
	return 0;
}

static int link_lists(struct address_space *s, size_t total)
{
	const struct space_mapping *mappings = mapping_list(s);

	s->next = calloc(total + 1, sizeof(*s->next));
	if (!s->next)
		return -ENOMEM;
	for (size_t node = 0; node < 2 * s->leaves; node++) {
		uint32_t next = s->first[node + 1];

		for (uint32_t i = s->first[node + 1]; i > s->first[node]; i--) {
			if (!mappings[s->lists[i - 1]].empty)
				next = i - 1;
			s->next[i - 1] = next;
		}
	}
	return 0;
}

int address_space_seal(struct address_space *s)
{
	struct space_mapping *mappings = (struct space_mapping *)s->mappings.data;
	size_t n = mapping_count(s), total = 0;
	int rc;

	if (!n || s->cuts)
		return 0;
	qsort(mappings, n, sizeof(*mappings), compare_mappings);
	rc = make_cuts(s, mappings, n);
	if (rc < 0)
		return rc;
	s->first = calloc(2 * s->leaves + 1, sizeof(*s->first));
	if (!s->first)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		list_mapping(s, &mappings[i], 0);
	for (size_t i = 0; i < 2 * s->leaves; i++) {
		uint32_t count = s->first[i];

		s->first[i] = (uint32_t)total;
		total += count;
		if (total > UINT32_MAX)
			return -ENOMEM;
	}
	s->lists = calloc(total + 1, sizeof(*s->lists));
	if (!s->lists)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		list_mapping(s, &mappings[i], (uint32_t)i);
	/* Appending moved the start of each list to the start of the next. */
	for (size_t i = 2 * s->leaves; i > 0; i--)
		s->first[i] = s->first[i - 1];
	s->first[0] = 0;
	return link_lists(s, total);
}

size_t address_space_count_until(const struct address_space *s, uint64_t time)
{
	const struct space_mapping *mappings = mapping_list(s);
	size_t low = 0, high = mapping_count(s);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (mappings[middle].time <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct space_mapping *address_space_find(const struct address_space *s, uint64_t addr, uint64_t time,
					       uint64_t *ret_end)
{
	/* Mappings are sorted by time, so the later of two has the greater index. */
	uint32_t until = (uint32_t)address_space_count_until(s, time), best = UINT32_MAX, soonest = UINT32_MAX;
	const struct space_mapping *mappings = mapping_list(s);
	size_t leaf = s->n_cuts ? find_cut(s, addr) : SIZE_MAX;

	if (leaf == SIZE_MAX || leaf + 1 >= s->n_cuts)
		return NULL;
	for (size_t node = s->leaves + leaf; node; node /= 2) {
		uint32_t first = s->first[node], end = s->first[node + 1], low = first, high = end;

		while (low < high) {
			uint32_t middle = low + (high - low) / 2;

			if (s->lists[middle] < until)
				low = middle + 1;
			else
				high = middle;
		}
		if (low > first && (best == UINT32_MAX || s->lists[low - 1] > best))
			best = s->lists[low - 1];
		if (low < end && s->next[low] < end)
			soonest = MIN(soonest, s->lists[s->next[low]]);
	}
	if (best == UINT32_MAX || mappings[best].empty)
		best = soonest;
	if (best == UINT32_MAX || mappings[best].unknown)
		return NULL;
	*ret_end = s->cuts[leaf + 1];
	return &mappings[best];
}

const struct space_mapping *address_space_find_only(const struct address_space *s, uint64_t addr, uint64_t *ret_end)
{
	const struct space_mapping *mappings = mapping_list(s), *only = NULL, *unknown = NULL;
	size_t leaf = s->n_cuts ? find_cut(s, addr) : SIZE_MAX;
	size_t n = 0;

	if (leaf == SIZE_MAX || leaf + 1 >= s->n_cuts)
		return NULL;
	for (size_t node = s->leaves + leaf; node; node /= 2)
		for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++) {
			const struct space_mapping *m = &mappings[s->lists[i]];

			if (++n > COMPARED_MAX)
				return NULL;
			if (m->empty)
				continue;
			if (m->unknown)
				unknown = unknown && unknown > m ? unknown : m;
			else if (only &&
				 (m->source != only->source || m->offset - m->start != only->offset - only->start))
				return NULL;
			else if (!only || m < only)
				only = m;
		}
	if (!only || (unknown && unknown > only))
		return NULL;
	*ret_end = s->cuts[leaf + 1];
	return only;
}
