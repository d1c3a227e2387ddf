/*
 * A thread's calls, folded: calls of one function from one place are one node, so it stays small however long the
 * trace. What is deeper than the limit, or one node too many, counts with the last frame above it that has a node.
 */
#ifndef CSIGHT_EXPORT_STACKS_H
#define CSIGHT_EXPORT_STACKS_H

#include "lib/export/walk.h"

enum { STACKS_NONE = -1, STACKS_DEPTH_MAX = 1000 };

struct stacks_node {
	uint32_t function;
	uint32_t level;
	int32_t parent, first_child, last_child, sibling; /* indexes, or STACKS_NONE */
	bool before, unfinished;                          /* began before the trace; had not ended with it */
	uint64_t calls, ns;
	uint64_t self_ns, self_instructions; /* in it, and in no node below */
	uint64_t deeper;                     /* calls from here that have no node */
};

struct stacks_frame {
	int32_t node;  /* STACKS_NONE: it has none */
	int32_t owner; /* the nearest outwards that has one */
	uint64_t entered;
};

struct stacks {
	unsigned limit;
	struct stacks_node *nodes;
	size_t n_nodes, cap_nodes;
	int32_t *hash; /* by parent and function: index + 1 */
	size_t hash_size;
	struct stacks_frame *frames; /* that are open */
	size_t depth, cap_frames;
	int32_t first_top, last_top; /* nodes without a parent */
	uint64_t gaps[STORE_GAP_KINDS], gap_ns[STORE_GAP_KINDS];
	uint64_t slices, n_gaps, uncertain;
	uint64_t first, last;        /* ns */
	uint64_t time, instructions; /* of the last event */
};

/* One thread, in place of what was there. limit: levels of nodes, up to STACKS_DEPTH_MAX. */
int stacks_fold(struct stacks *s, const struct export_walk *w, size_t thread, unsigned limit);
void stacks_done(struct stacks *s);

#endif
