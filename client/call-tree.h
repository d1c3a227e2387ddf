/* SPDX-License-Identifier: MIT */
/*
 * The calls beneath calls of one function, merged by path, on two sides that are to be compared. A call of a function
 * that is open already counts at that frame, so that a recursion is one node.
 */
#ifndef CSIGHT_CLIENT_CALL_TREE_H
#define CSIGHT_CLIENT_CALL_TREE_H

#include "client/call-list.h"
#include "lib/base/hash.h"

enum { CALL_TREE_SLOW, CALL_TREE_TYPICAL, CALL_TREE_SIDES };

/* More paths, and deeper ones, are cut: what is beneath a node there is summed up at that node. */
enum { CALL_TREE_NODES_MAX = 1 << 17, CALL_TREE_DEPTH_MAX = 1000 };

enum { CALL_TREE_ROOT }; /* number of the first node */

#define CALL_TREE_NONE UINT32_MAX

/* The time or instructions of calls on one side. */
struct call_figures {
	uint64_t calls;
	uint64_t self, cut; /* cut: of calls beneath it that have no node */
	/* with callees, except time in which the thread was preempted; wait: part of total in which it waited */
	uint64_t total, wait;
};

struct call_node {
	uint32_t function;
	uint32_t parent, first_child, sibling;
	uint32_t level;
	struct call_figures side[CALL_TREE_SIDES];
};

/* The longest wait in the slow calls; to 0: there is none. */
struct call_tree_wait {
	uint64_t from, to;
	uint32_t thread;
	uint32_t node; /* of the function that waited: a system call */
};

struct call_tree {
	const struct call_list *list;
	struct call_node *nodes;
	size_t n, cap;
	uint64_t preempted[CALL_TREE_SIDES];
	struct call_tree_wait longest_wait;
	struct hash by_path;
};

/* The list must outlive the tree. -ENOMEM; free it even then. */
int call_tree_init(struct call_tree *t, const struct call_list *list);
void call_tree_done(struct call_tree *t);

/*
 * Adds n calls to a side, which are in the order of the list, each as if it had occurred `weight` times. Errors as of
 * store_calls_read().
 */
int call_tree_add(struct call_tree *t, unsigned side, const struct store_call *calls, size_t n, uint64_t weight);

/* Sums up the totals; no call can be added then. */
void call_tree_finish(struct call_tree *t);

#endif
