/* SPDX-License-Identifier: MIT */
/*
 * How often the edges of batches (lib/etm/native.h) were executed, and where indirect branches went. An edge has a cell
 * in the table of its numbering; where nothing new happens, a cell is all that is read and written for an edge. Counts
 * hold while the code at an address is the same: the owner reads and clears them when it may change.
 */
#ifndef CSIGHT_DECODE_EDGE_COUNTS_H
#define CSIGHT_DECODE_EDGE_COUNTS_H

#include "lib/etm/native.h"

enum { EDGE_TABLES = 64 };

struct edge_cell {
	uint64_t n;            /* executed; 0: the edge has no struct edge_count */
	uint32_t next;         /* the block that followed last, without a gap; 0: none */
	uint32_t instructions; /* of the block */
};

/* What else is known of an edge that was executed. */
struct edge_count {
	uint64_t start;
	uint64_t successor; /* where the code continues, or NATIVE_UNKNOWN: behind an indirect branch */
	uint64_t to;        /* an indirect branch: its last target */
	uint64_t apart;     /* how often its branch was executed that is counted elsewhere, all others went to `to` */
	uint32_t size;      /* bytes of code */
	uint32_t edge;
	bool branches; /* by a branch that was taken */
};

/* An indirect branch to a target. */
struct edge_target {
	uint64_t start, to;
	uint64_t n; /* 0: none */
	uint32_t size;
};

struct edge_table {
	uint64_t numbering;
	struct edge_cell *cells; /* by edge. No edge has number 0: that cell stays empty */
	uint32_t *numbers;       /* by edge: where it is in list */
	size_t n_cells;
	struct edge_count *list;
	size_t n, capacity;
};

struct edge_counts {
	struct edge_table tables[EDGE_TABLES];
	size_t n_tables;
	/* A hash table, open addressing: the size is a power of two, and at most half is used. */
	struct edge_target *targets;
	size_t n_targets, used_targets;
};

/* Finds the table of a batch, and makes it large enough. -ENOMEM; -EFBIG: tables are too many, or too large. */
int edge_counts_table(struct edge_counts *c, const struct native_batch *b, struct edge_table **ret);

/* Gives an edge its struct edge_count; the caller counts it in its cell. -ENOMEM. */
int edge_counts_add(struct edge_table *t, const struct native_batch *b, uint32_t edge);

static inline struct edge_count *edge_counts_find(const struct edge_table *t, uint32_t edge)
{
	return &t->list[t->numbers[edge]];
}

/* Counts an indirect branch to a target n times. -ENOMEM, -EFBIG. */
int edge_counts_add_target(struct edge_counts *c, const struct edge_count *e, uint64_t to, uint64_t n);

/* Forgets all counts, but keeps the tables for edges to come. */
void edge_counts_clear(struct edge_counts *c);
void edge_counts_done(struct edge_counts *c);

#endif
