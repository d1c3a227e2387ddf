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
	uint64_t n;            /* number of executions; 0: the edge is not in the list of its table */
	uint32_t next;         /* the block that followed last, without a gap; 0: none */
	uint32_t instructions; /* of the block */
};

/* The rest of what is known about an edge that was executed. */
struct edge_count {
	uint64_t start;
	uint64_t successor; /* address at which the code continues; NATIVE_UNKNOWN after an indirect branch */
	uint64_t to;        /* of an indirect branch: its last target */
	uint64_t apart;     /* number of its executions whose branch is counted elsewhere; all others went to `to` */
	uint32_t size;      /* bytes of code */
	uint32_t edge;
	bool branches; /* the edge ends with a taken branch */
};

/* Counts an indirect branch to one of its targets. */
struct edge_target {
	uint64_t start, to;
	uint64_t n; /* 0: none */
	uint32_t size;
};

struct edge_table {
	uint64_t numbering;
	struct edge_cell *cells; /* by edge. No edge has number 0: that cell stays empty */
	uint32_t *numbers;       /* by edge: its index in list */
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

/*
 * Finds or adds the table of a batch, and makes it large enough for the batch. Returns 0, -ENOMEM, or -EFBIG: there
 * would be too many tables, or one would be too large.
 */
int edge_counts_table(struct edge_counts *c, const struct native_batch *b, struct edge_table **ret);

/* Adds an edge to the list of a table; the caller counts it in its cell. Returns 0 or -ENOMEM. */
int edge_counts_add(struct edge_table *t, const struct native_batch *b, uint32_t edge);

static inline struct edge_count *edge_counts_find(const struct edge_table *t, uint32_t edge)
{
	return &t->list[t->numbers[edge]];
}

/* Counts n executions of an indirect branch to a target. Returns 0, -ENOMEM or -EFBIG. */
int edge_counts_add_target(struct edge_counts *c, const struct edge_count *e, uint64_t to, uint64_t n);

/* Clears all counts, but keeps the tables for later edges. */
void edge_counts_clear(struct edge_counts *c);
void edge_counts_done(struct edge_counts *c);

#endif
