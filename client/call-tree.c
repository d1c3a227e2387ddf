/* SPDX-License-Identifier: MIT */
#include "client/call-tree.h"

#include <stdlib.h>

#include "lib/base/array.h"
#include "lib/base/util.h"

enum { PATHS_MAX = 2 * CALL_TREE_NODES_MAX };

/*
 * Where the time of a frame is added: to its function; to its node, beneath which it is cut; to the time without a CPU.
 */
enum tree_frame_kind { FRAME_PLAIN, FRAME_CUT, FRAME_PREEMPTED };

struct tree_frame {
	uint32_t node;
	enum tree_frame_kind kind;
};

struct tree_reading {
	struct call_tree *to;
	unsigned side;
	uint64_t weight;
	uint32_t thread;
	struct tree_frame *frames;
	size_t depth, cap;
	uint64_t time, instructions; /* of the event before */
};

static int add_node(struct call_tree *t, uint32_t function, uint32_t parent)
{
	struct call_node *p;

	if (array_reserve(t->nodes, t->n, &t->cap) < 0)
		return -ENOMEM;
	t->nodes[t->n] = (struct call_node){
		.function = function, .parent = parent, .first_child = CALL_TREE_NONE, .sibling = CALL_TREE_NONE
	};
	if (parent != CALL_TREE_NONE) {
		p = &t->nodes[parent];
		t->nodes[t->n].level = p->level + 1;
		t->nodes[t->n].sibling = p->first_child;
		p->first_child = (uint32_t)t->n;
	}
	t->n++;
	return 0;
}

int call_tree_init(struct call_tree *t, const struct call_list *list)
{
	uint32_t function = CALL_TREE_NONE;

	*t = (struct call_tree){ .list = list };
	for (size_t i = 0; i < store_functions(list->store) && function == CALL_TREE_NONE; i++)
		if (list->roots[i])
			function = (uint32_t)i;
	return add_node(t, function, CALL_TREE_NONE);
}

void call_tree_done(struct call_tree *t)
{
	free(t->nodes);
	hash_done(&t->by_path);
	*t = (struct call_tree){ 0 };
}

static bool is_function(const struct call_tree *t, uint32_t node, uint32_t function)
{
	return node == CALL_TREE_ROOT ? t->list->roots[function] : t->nodes[node].function == function;
}

/*
 * Finds or makes the node of a function that is called at a node: itself or one above in a recursion, or a child.
 * CALL_TREE_NONE: it is cut.
 */
static int make_node(struct call_tree *t, uint32_t at, uint32_t function, uint32_t *ret)
{
	uint32_t above = at;

	while (above != CALL_TREE_NONE && !is_function(t, above, function))
		above = t->nodes[above].parent;
	if (above != CALL_TREE_NONE)
		*ret = above;
	else if (t->n >= CALL_TREE_NODES_MAX || t->nodes[at].level >= CALL_TREE_DEPTH_MAX)
		*ret = CALL_TREE_NONE;
	else
		*ret = (uint32_t)t->n;
	return *ret == t->n ? add_node(t, function, at) : 0;
}

static int find_node(struct call_tree *t, uint32_t at, uint32_t function, uint32_t *ret)
{
	uint64_t key = (uint64_t)at << 32 | function;
	uint32_t *number = hash_get(&t->by_path, key, 0);
	int rc;

	if (number) {
		*ret = *number;
		return 0;
	}
	rc = make_node(t, at, function, ret);
	/* The table is only a short cut. */
	if (rc < 0 || t->by_path.n >= PATHS_MAX)
		return rc;
	rc = hash_find(&t->by_path, key, 0, &number);
	if (rc >= 0)
		*number = *ret;
	return MIN(rc, 0);
}

static int on_enter(struct tree_reading *r, const struct store_event *e)
{
	struct call_tree *t = r->to;
	struct tree_frame frame = { .node = CALL_TREE_ROOT }, *above = r->depth ? &r->frames[r->depth - 1] : NULL;
	bool piece = e->frame.piece && above, counts = !calls_kind_is_resumed(e->kind) && !piece;
	uint32_t node = CALL_TREE_ROOT;
	int rc = 0;

	if (above)
		frame = *above;
	if (store_function(t->list->store, e->frame.function)->kind == REGION_PREEMPTED)
		frame.kind = FRAME_PREEMPTED;
	if (above && !piece && frame.kind == FRAME_PLAIN) {
		rc = find_node(t, above->node, e->frame.function, &node);
		frame.kind = node == CALL_TREE_NONE ? FRAME_CUT : FRAME_PLAIN;
		frame.node = node == CALL_TREE_NONE ? above->node : node;
	}
	if (rc == 0)
		rc = array_reserve(r->frames, r->depth, &r->cap);
	if (rc < 0)
		return rc;
	if (counts && frame.kind == FRAME_PLAIN)
		t->nodes[frame.node].side[r->side].calls += r->weight;
	r->frames[r->depth++] = frame;
	return 0;
}

/* Adds a value to the figures of the innermost frame, by its kind. */
static void add_value(struct tree_reading *r, uint64_t value)
{
	const struct tree_frame *frame = &r->frames[r->depth - 1];
	struct call_figures *figures = &r->to->nodes[frame->node].side[r->side];
	uint64_t *const sums[] = { [FRAME_PLAIN] = &figures->self,
				   [FRAME_CUT] = &figures->cut,
				   [FRAME_PREEMPTED] = &r->to->preempted[r->side] };

	*sums[frame->kind] += value * r->weight;
}

/* Ends the innermost frame. It may be the longest wait so far. */
static void on_leave(struct tree_reading *r, const struct store_event *e)
{
	struct call_tree_wait *longest = &r->to->longest_wait;
	const struct tree_frame *frame = &r->frames[--r->depth];
	uint64_t ns = e->time - e->frame.enter;

	if (r->side != CALL_TREE_SLOW || frame->kind != FRAME_PLAIN || !r->depth ||
	    store_function(r->to->list->store, e->frame.function)->kind != REGION_WAITING ||
	    ns <= longest->to - longest->from)
		return;
	*longest = (struct call_tree_wait){ e->frame.enter, e->time, r->thread, r->frames[r->depth - 1].node };
}

static int on_event(void *user, const struct store_event *e, uint32_t depth)
{
	struct tree_reading *r = user;
	uint64_t value = r->to->list->measure == MEASURE_TIME ? e->time - r->time : e->instructions - r->instructions;

	if (r->depth)
		add_value(r, value);
	r->time = e->time;
	r->instructions = e->instructions;
	if (e->type == STORE_ENTER && depth == r->depth)
		return on_enter(r, e);
	if (e->type == STORE_LEAVE && depth + 1 == r->depth)
		on_leave(r, e);
	return 0;
}

int call_tree_add(struct call_tree *t, unsigned side, const struct store_call *calls, size_t n, uint64_t weight)
{
	struct tree_reading r = { .to = t, .side = side, .weight = weight };
	const struct store_calls_sink sink = { .event = on_event, .user = &r };
	int rc = 0;

	for (size_t next, i = 0; rc == 0 && i < n; i = next) {
		for (next = i; next < n && calls[next].thread == calls[i].thread;)
			next++;
		r.depth = 0;
		r.thread = calls[i].thread;
		rc = store_calls_read(t->list->store, t->list->roots, &calls[i], next - i, &sink);
	}
	free(r.frames);
	return rc;
}

void call_tree_finish(struct call_tree *t)
{
	/* A node follows its parent. */
	for (size_t i = t->n; i-- > 0;) {
		struct call_node *n = &t->nodes[i];
		bool waits = store_function(t->list->store, n->function)->kind == REGION_WAITING;

		for (unsigned side = 0; side < CALL_TREE_SIDES; side++) {
			struct call_figures *f = &n->side[side], *parent;

			f->total += f->self + f->cut;
			f->wait += waits ? f->self : 0;
			if (n->parent == CALL_TREE_NONE)
				continue;
			parent = &t->nodes[n->parent].side[side];
			parent->total += f->total;
			parent->wait += f->wait;
		}
	}
}
