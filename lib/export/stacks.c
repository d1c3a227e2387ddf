/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/export/stacks.h"

enum { NODES_MAX = 1 << 17 };

static uint64_t node_key(int32_t parent, uint32_t function)
{
	return (uint64_t)(uint32_t)parent << 32 | function;
}

static int nodes_add(struct stacks *s, int32_t parent, uint32_t function, int32_t *ret)
{
	int32_t index = (int32_t)s->n_nodes, *first, *last;
	struct stacks_node *n;
	uint32_t *number;

	if (array_reserve(s->nodes, s->n_nodes, &s->cap_nodes) < 0 ||
	    hash_find(&s->numbers, node_key(parent, function), 0, &number) < 0)
		return -ENOMEM;
	*number = (uint32_t)index;
	n = &s->nodes[s->n_nodes++];
	*n = (struct stacks_node){ .function = function,
				   .parent = parent,
				   .first_child = STACKS_NONE,
				   .last_child = STACKS_NONE,
				   .sibling = STACKS_NONE };
	n->level = parent == STACKS_NONE ? 0 : s->nodes[parent].level + 1;
	first = parent == STACKS_NONE ? &s->first_top : &s->nodes[parent].first_child;
	last = parent == STACKS_NONE ? &s->last_top : &s->nodes[parent].last_child;
	if (*last == STACKS_NONE)
		*first = index;
	else
		s->nodes[*last].sibling = index;
	*last = index;
	*ret = index;
	return 0;
}

/*
 * Finds or adds the node of a callee of the current frame. *ret: STACKS_NONE if it would be too deep or one too many.
 */
static int nodes_find(struct stacks *s, uint32_t function, int32_t *ret)
{
	int32_t parent = s->depth ? s->frames[s->depth - 1].node : STACKS_NONE;
	const uint32_t *number;

	*ret = STACKS_NONE;
	if (s->depth && parent == STACKS_NONE)
		return 0;
	if (s->depth >= s->limit) {
		s->nodes[parent].deeper++;
		return 0;
	}
	number = hash_get(&s->numbers, node_key(parent, function), 0);
	if (number)
		*ret = (int32_t)*number;
	else if (s->n_nodes < NODES_MAX)
		return nodes_add(s, parent, function, ret);
	else if (parent != STACKS_NONE)
		s->nodes[parent].deeper++;
	return 0;
}

static int frame_enter(struct stacks *s, const struct store_event *e, bool cut)
{
	bool piece = e->frame.piece && s->depth;
	bool is_call = !piece && cut_calls_enter(&s->cut, e->frame.function, e->kind, e->again);
	int32_t node;
	int rc;

	if (array_reserve(s->frames, s->depth, &s->cap_frames) < 0)
		return -ENOMEM;
	/* A part of the function around it shares its node. */
	node = piece ? s->frames[s->depth - 1].node : STACKS_NONE;
	rc = piece ? 0 : nodes_find(s, e->frame.function, &node);
	if (rc < 0)
		return rc;
	if (node != STACKS_NONE && !piece) {
		s->nodes[node].calls += is_call;
		s->nodes[node].tails += calls_kind_is_tail(e->kind);
		s->nodes[node].folded += e->kind == CALL_FOLDED;
		s->nodes[node].before = s->nodes[node].before || cut || e->kind == CALL_INFERRED;
		s->nodes[node].bound = MAX(s->nodes[node].bound, e->bound);
	}
	s->frames[s->depth] = (struct stacks_frame){ node, node, e->time };
	if (node == STACKS_NONE && s->depth)
		s->frames[s->depth].owner = s->frames[s->depth - 1].owner;
	s->depth++;
	s->slices++;
	return 0;
}

static int frame_leave(struct stacks *s, const struct store_event *e, bool cut)
{
	const struct stacks_frame *f = &s->frames[--s->depth];
	int rc = 0;

	if (e->frame.piece && s->depth)
		return 0;
	cut_calls_leave(&s->cut);
	if (e->kind == LEAVE_GAP && !cut)
		rc = cut_calls_add(&s->cut, s->depth, e->frame.function);
	if (f->node == STACKS_NONE || rc < 0)
		return rc;
	s->nodes[f->node].ns += e->time - f->entered;
	s->nodes[f->node].bound = MAX(s->nodes[f->node].bound, e->bound);
	s->nodes[f->node].unfinished =
	    s->nodes[f->node].unfinished || cut || e->kind == LEAVE_END || e->kind == LEAVE_GAP;
	return 0;
}

/* Attributes the time since the last event to the open frame. */
static void add_self_time(struct stacks *s, const struct store_event *e)
{
	int32_t owner = s->depth ? s->frames[s->depth - 1].owner : STACKS_NONE;

	if (owner != STACKS_NONE) {
		s->nodes[owner].self_ns += e->time - MIN(e->time, s->time);
		s->nodes[owner].self_instructions += e->instructions - MIN(e->instructions, s->instructions);
	}
	s->time = e->time;
	s->instructions = e->instructions;
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct stacks *s = user;

	s->first = MIN(s->first, e->time);
	s->last = MAX(s->last, e->time);
	add_self_time(s, e);
	/* The instructions executed before the exported interval are unknown. */
	if (cut && e->type == STORE_ENTER)
		s->instructions = UINT64_MAX;
	switch (e->type) {
	case STORE_ENTER:
		return frame_enter(s, e, cut);
	case STORE_LEAVE:
		return frame_leave(s, e, cut);
	case STORE_GAP:
		s->gaps[e->kind % STORE_GAP_KINDS]++;
		s->gap_ns[e->kind % STORE_GAP_KINDS] += e->until - e->time;
		s->n_gaps++;
		return 0;
	case STORE_MARK:
		s->uncertain += e->kind == MARK_UNCERTAIN;
		return 0;
	}
	return 0;
}

int stacks_fold(struct stacks *s, const struct export_walk *w, size_t thread, unsigned limit)
{
	const struct walk_sink sink = { on_event, s };

	s->limit = MIN(limit, (unsigned)STACKS_DEPTH_MAX);
	s->n_nodes = s->depth = 0;
	s->first_top = s->last_top = STACKS_NONE;
	s->first = UINT64_MAX;
	s->last = s->slices = s->n_gaps = s->uncertain = s->time = s->instructions = 0;
	memset(s->gaps, 0, sizeof(s->gaps));
	memset(s->gap_ns, 0, sizeof(s->gap_ns));
	hash_clear(&s->numbers);
	cut_calls_done(&s->cut);
	return walk_thread(w, thread, &sink);
}

void stacks_done(struct stacks *s)
{
	free(s->nodes);
	hash_done(&s->numbers);
	free(s->frames);
	cut_calls_done(&s->cut);
	*s = (struct stacks){ 0 };
}
