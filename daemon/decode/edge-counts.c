/* SPDX-License-Identifier: MIT */
#include "daemon/decode/edge-counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"

enum { FIRST = 1 << 12, MOST = 1 << 24, CELLS_MOST = 1 << 23 };

static int table_grow(struct edge_table *t, size_t n)
{
	size_t capacity = t->n_cells ? t->n_cells : 2 * FIRST;
	struct edge_cell *cells;
	uint32_t *numbers;

	while (capacity < n)
		capacity *= 2;
	cells = reallocarray(t->cells, capacity, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	t->cells = cells;
	numbers = reallocarray(t->numbers, capacity, sizeof(*numbers));
	if (!numbers)
		return -ENOMEM;
	t->numbers = numbers;
	memset(cells + t->n_cells, 0, (capacity - t->n_cells) * sizeof(*cells));
	t->n_cells = capacity;
	return 0;
}

int edge_counts_table(struct edge_counts *c, const struct native_batch *b, struct edge_table **ret)
{
	size_t i = 0, n = 2 * (size_t)b->n_blocks, cells = 0;
	int rc;

	while (i < c->n_tables && c->tables[i].numbering != b->numbering)
		i++;
	if (i == EDGE_TABLES)
		return -EFBIG;
	for (size_t k = 0; n > c->tables[i].n_cells && k < c->n_tables; k++)
		cells += c->tables[k].n_cells;
	if (cells && cells + n > CELLS_MOST)
		return -EFBIG;
	rc = n > c->tables[i].n_cells ? table_grow(&c->tables[i], n) : 0;
	if (rc < 0)
		return rc;
	c->tables[i].numbering = b->numbering;
	c->n_tables = i < c->n_tables ? c->n_tables : i + 1;
	*ret = &c->tables[i];
	return 0;
}

int edge_counts_add(struct edge_table *t, const struct native_batch *b, uint32_t edge)
{
	const struct basic_block *block = &b->blocks[edge_block(edge)];
	int rc = array_reserve(t->list, t->n, &t->capacity);

	if (rc < 0)
		return rc;
	t->cells[edge].instructions = block->count;
	t->numbers[edge] = (uint32_t)t->n;
	t->list[t->n++] = (struct edge_count){ .start = block->start,
					       .successor = native_successor(b->blocks, edge),
					       .size = 4 * block->count,
					       .edge = edge,
					       .branches = edge_is_taken(edge) &&
							   (block->kind == INSTR_BR || block->kind == INSTR_IBR) };
	return 0;
}

static struct edge_target *find_target(const struct edge_counts *c, const struct edge_target *key)
{
	size_t i = (size_t)((key->start * 0x9e3779b97f4a7c15u ^ key->to * 0xc2b2ae3d27d4eb4fu) >> 32);

	for (;; i++) {
		struct edge_target *t = &c->targets[i & (c->n_targets - 1)];

		if (!t->n || (t->start == key->start && t->to == key->to && t->size == key->size))
			return t;
	}
}

static int grow_targets(struct edge_counts *c)
{
	struct edge_counts old = *c;

	if (c->n_targets == MOST)
		return -EFBIG;
	c->n_targets = old.n_targets ? 2 * old.n_targets : FIRST;
	c->targets = calloc(c->n_targets, sizeof(*c->targets));
	if (!c->targets) {
		*c = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.n_targets; i++)
		if (old.targets[i].n)
			*find_target(c, &old.targets[i]) = old.targets[i];
	free(old.targets);
	return 0;
}

int edge_counts_add_target(struct edge_counts *c, const struct edge_count *e, uint64_t to, uint64_t n)
{
	const struct edge_target key = { .start = e->start, .to = to, .size = e->size };
	struct edge_target *t;
	int rc = 2 * c->used_targets >= c->n_targets ? grow_targets(c) : 0;

	if (rc < 0 || !n)
		return rc;
	t = find_target(c, &key);
	c->used_targets += !t->n;
	n += t->n;
	*t = key;
	t->n = n;
	return 0;
}

void edge_counts_clear(struct edge_counts *c)
{
	for (size_t i = 0; i < c->n_tables; i++) {
		struct edge_table *t = &c->tables[i];

		for (size_t k = 0; k < t->n; k++)
			t->cells[t->list[k].edge] = (struct edge_cell){ 0 };
		t->n = 0;
	}
	free(c->targets);
	c->targets = NULL;
	c->n_targets = c->used_targets = 0;
}

void edge_counts_done(struct edge_counts *c)
{
	for (size_t i = 0; i < EDGE_TABLES; i++) {
		free(c->tables[i].cells);
		free(c->tables[i].numbers);
		free(c->tables[i].list);
	}
	free(c->targets);
	*c = (struct edge_counts){ 0 };
}
