/* SPDX-License-Identifier: MIT */
/*
 * How often the edges of batches (lib/etm/native.h) were executed, and where indirect branches went, by address. Counts
 * hold while the code at an address is the same: the owner reads and clears them when it may change.
 */
#ifndef CSIGHT_DECODE_EDGE_COUNTS_H
#define CSIGHT_DECODE_EDGE_COUNTS_H

#include "lib/etm/native.h"

/* An edge: a basic block, and whether its branch was taken. */
struct edge_count {
	uint64_t start;
	uint64_t target;   /* of a direct branch; else UINT64_MAX */
	uint64_t n;        /* executed; 0: no edge */
	uint64_t apart;    /* of these, those whose branch is counted elsewhere */
	uint64_t to, n_to; /* of an indirect branch: its last target, and how often it went there in succession */
	uint32_t size;     /* bytes of code */
	bool taken;
	bool branches; /* by a branch that was taken */
};

/* An indirect branch to a target. */
struct edge_target {
	uint64_t start, to;
	uint64_t n; /* 0: none */
	uint32_t size;
};

struct edge_counts {
	/* Hash tables, open addressing: the sizes are powers of two, and at most half is used. */
	struct edge_count *edges;
	size_t n_edges, used_edges;
	struct edge_target *targets;
	size_t n_targets, used_targets;
};

static inline size_t edge_counts_slot(const struct edge_counts *c, uint64_t start, bool taken)
{
	return (size_t)((start + taken) * 0x9e3779b97f4a7c15u >> 32) & (c->n_edges - 1);
}

/* Makes room for an edge. -ENOMEM; -EFBIG: there are too many. Pointers to edges may become invalid. */
int edge_counts_make_room(struct edge_counts *c);

/* Finds the count of an edge, whose n is 0 if it is new; NULL: the table is empty. */
static inline struct edge_count *edge_counts_find(struct edge_counts *c, const struct basic_block *b, bool taken)
{
	uint32_t size = 4 * b->count;

	if (!c->n_edges)
		return NULL;
	for (size_t i = edge_counts_slot(c, b->start, taken);; i = (i + 1) & (c->n_edges - 1)) {
		struct edge_count *e = &c->edges[i];

		if (e->n && (e->start != b->start || e->taken != taken || e->size != size))
			continue;
		return e;
	}
}

/* Counts an indirect branch to a target n times. -ENOMEM, -EFBIG. */
int edge_counts_add_target(struct edge_counts *c, const struct edge_count *e, uint64_t to, uint64_t n);

/* Forgets all counts. */
void edge_counts_done(struct edge_counts *c);

#endif
