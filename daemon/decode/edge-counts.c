/* SPDX-License-Identifier: MIT */
#include "daemon/decode/edge-counts.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST = 1 << 12, MOST = 1 << 24 };

int edge_counts_make_room(struct edge_counts *c)
{
	struct edge_counts old = *c;

	if (2 * c->used_edges < c->n_edges)
		return 0;
	if (c->n_edges == MOST)
		return -EFBIG;
	c->n_edges = old.n_edges ? 2 * old.n_edges : FIRST;
	c->edges = calloc(c->n_edges, sizeof(*c->edges));
	if (!c->edges) {
		*c = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.n_edges; i++) {
		const struct edge_count *e = &old.edges[i];
		size_t to = edge_counts_slot(c, e->start, e->taken);

		while (e->n && c->edges[to].n)
			to = (to + 1) & (c->n_edges - 1);
		if (e->n)
			c->edges[to] = *e;
	}
	free(old.edges);
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

void edge_counts_done(struct edge_counts *c)
{
	free(c->edges);
	free(c->targets);
	*c = (struct edge_counts){ 0 };
}
