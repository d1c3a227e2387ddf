/* SPDX-License-Identifier: MIT */
/*
 * Folds a thread's calls into a tree: calls of one function with the same callers share a node, so the tree is small
 * however long the trace. Calls below the depth limit or the node limit count with their nearest ancestor that has a
 * node.
 */
#ifndef CSIGHT_EXPORT_STACKS_H
#define CSIGHT_EXPORT_STACKS_H

#include "lib/base/hash.h"
#include "lib/export/walk.h"
#include "lib/store/cut-calls.h"

enum { STACKS_NONE = -1, STACKS_DEPTH_MAX = 1000 };

struct stacks_node {
	uint32_t function;
	uint32_t level;
	int32_t parent, first_child, last_child, sibling; /* indexes, or STACKS_NONE */
	bool before, unfinished;                          /* began before the trace; had not ended with it */
	uint64_t calls, ns;
	uint64_t tails, folded;              /* calls that were tail calls; of these, those in folded chains */
	uint64_t bound;                      /* largest error bound of the times at which calls begin and end */
	uint64_t self_ns, self_instructions; /* in this node, not in those below */
	uint64_t deeper;                     /* calls from this node that have no node */
};

struct stacks_frame {
	int32_t node;  /* STACKS_NONE: none */
	int32_t owner; /* node of the nearest ancestor that has one */
	uint64_t entered;
};

struct stacks {
	unsigned limit;
	struct stacks_node *nodes;
	size_t n_nodes, cap_nodes;
	struct hash numbers;         /* node indexes by parent and function */
	struct stacks_frame *frames; /* open frames */
	size_t depth, cap_frames;
	struct cut_calls cut;        /* by gaps, of the thread */
	int32_t first_top, last_top; /* nodes without a parent */
	uint64_t gaps[STORE_GAP_KINDS], gap_ns[STORE_GAP_KINDS];
	uint64_t slices, n_gaps, uncertain;
	uint64_t first, last;        /* ns */
	uint64_t time, instructions; /* of the last event */
};

/* Folds one thread; earlier contents are replaced. limit: levels of nodes, STACKS_DEPTH_MAX at most. */
int stacks_fold(struct stacks *s, const struct export_walk *w, size_t thread, unsigned limit);
void stacks_done(struct stacks *s);

#endif
