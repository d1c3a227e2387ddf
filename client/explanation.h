/* SPDX-License-Identifier: MIT */
/*
 * Why calls took longer than others: the difference of two sides of a call tree, divided into lines. The differences of
 * all lines add up to that of the calls: each ns or instruction is in one line.
 */
#ifndef CSIGHT_CLIENT_EXPLANATION_H
#define CSIGHT_CLIENT_EXPLANATION_H

#include "client/call-tree.h"
#include "client/waker.h"

enum explained_kind {
	EXPLAINED_ONLY,      /* the function ran only in the slow call, with all beneath it */
	EXPLAINED_MISSING,   /* it ran only in the typical one */
	EXPLAINED_MORE,      /* it ran more often */
	EXPLAINED_FEWER,     /* it ran less often */
	EXPLAINED_SELF,      /* its own code took longer, without what it calls */
	EXPLAINED_LONGER,    /* it took longer: itself, and what it calls but for that of other lines */
	EXPLAINED_WAIT,      /* it waited in a system call, itself or in a library function that it calls */
	EXPLAINED_CUT,       /* calls beneath it took longer that have no node of their own */
	EXPLAINED_PREEMPTED, /* the thread could have run, but had no CPU */
	EXPLAINED_OTHER,     /* lines that are too small to be printed */
};

/* All nodes are numbers of the tree, or CALL_TREE_NONE. */
struct explained_line {
	enum explained_kind kind;
	uint32_t node;    /* what the line is of */
	uint32_t named;   /* the function that it names first: node, or for waits the program's own function above it */
	uint32_t caller;  /* the program's own function that makes the calls, if that says more than the path */
	uint32_t deepest; /* the last of a chain of functions that each hold nearly all of the line, or node */
	uint32_t syscall; /* system call in which most of the line waited */
	int64_t difference, wait; /* wait: part of it */
	uint64_t value[CALL_TREE_SIDES], calls[CALL_TREE_SIDES];
	uint32_t places; /* paths that the line sums up; of EXPLAINED_OTHER lines */
};

struct explanation {
	const struct call_tree *tree;
	struct explained_line *lines; /* largest difference first; then that of EXPLAINED_OTHER */
	size_t n, cap;
	int64_t difference;
	const struct explained_line *woken; /* the line that has the longest wait, if its waker is known; or NULL */
	struct waker waker;
	uint8_t *is_library; /* by function of the store */
	int64_t *own_diff;   /* by node: difference in the program's own functions at and beneath it */
};

/*
 * Explains a finished tree, which must outlive *e. Lines of less than one in a hundred of the difference, and those
 * beyond limit (0: none), become one line. -ENOMEM; free it even then.
 */
int explanation_make(struct explanation *e, const struct call_tree *tree, size_t limit);

/* Finds who ended the longest wait of the slow calls. Errors as of iterators; none if that is unknown. */
int explanation_find_waker(struct explanation *e);
void explanation_done(struct explanation *e);

/* Returns the function of a node. */
const struct store_function *explanation_function(const struct explanation *e, uint32_t node);

/*
 * Returns the library function that the program called for the system call in which a line waited, such as
 * pthread_mutex_lock() for futex; CALL_TREE_NONE: none, or the line names it already.
 */
uint32_t explanation_waited_in(const struct explanation *e, const struct explained_line *line);

const char *explanation_kind_str(enum explained_kind kind);

#endif
