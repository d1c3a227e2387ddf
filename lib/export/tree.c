/*
 * A text tree for a terminal: which function called which, in the order in which each was first called, with how often
 * and how long. Calls of one function from one place in the tree are one line, so it stays small however long the
 * trace.
 */
#include <string.h>

#include "lib/base/escape.h"
#include "lib/export/walk.h"

enum { NODES_MAX = 1 << 17, GAP_KINDS = 8, NO_NODE = -1, NAME_SIZE = 256, INDENT_MAX = 120 };

struct node {
	uint32_t function;
	uint32_t level;
	int32_t parent, first_child, last_child, sibling;
	bool before, unfinished; /* began before the trace; had not ended with it */
	uint64_t calls, ns;
	uint64_t deeper; /* calls from here that are not shown, for depth */
};

struct tree {
	struct out out;
	const struct walk *walk;
	const struct export_options *options;
	struct export_result *result;
	struct node *nodes;
	size_t n_nodes, room_nodes;
	int32_t *hash; /* by parent and function: index + 1 */
	size_t hash_size;
	int32_t *stack; /* the node of each open frame, NO_NODE where it has none */
	uint64_t *entered;
	size_t depth, room_stack;
	int32_t first_top, last_top; /* nodes without a parent */
	uint64_t gaps[GAP_KINDS], gap_ns[GAP_KINDS];
	uint64_t first, last;
};

static const char *paint(const struct tree *t, const char *code)
{
	return t->options->colour ? code : "";
}

#define DIM "\033[2m"
#define BOLD "\033[1m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

static size_t slot_of(const struct tree *t, int32_t parent, uint32_t function)
{
	uint64_t h = ((uint64_t)(uint32_t)parent << 32 | function) * 0x9e3779b97f4a7c15ull;
	size_t i = (size_t)(h >> 32) & (t->hash_size - 1);

	while (t->hash[i]) {
		const struct node *n = &t->nodes[t->hash[i] - 1];

		if (n->parent == parent && n->function == function)
			break;
		i = (i + 1) & (t->hash_size - 1);
	}
	return i;
}

static int grow(struct tree *t)
{
	size_t room = t->room_nodes ? t->room_nodes * 2 : 256, size = room * 2;
	struct node *nodes = realloc(t->nodes, room * sizeof(*nodes));
	int32_t *hash;

	if (!nodes)
		return -ENOMEM;
	t->nodes = nodes;
	hash = calloc(size, sizeof(*hash));
	if (!hash)
		return -ENOMEM;
	free(t->hash);
	t->hash = hash;
	t->hash_size = size;
	t->room_nodes = room;
	for (size_t i = 0; i < t->n_nodes; i++)
		t->hash[slot_of(t, nodes[i].parent, nodes[i].function)] = (int32_t)i + 1;
	return 0;
}

static int new_node(struct tree *t, size_t slot, int32_t parent, uint32_t function, int32_t *ret)
{
	int32_t index = (int32_t)t->n_nodes, *first, *last;
	struct node *n = &t->nodes[t->n_nodes++];

	*n = (struct node){ .function = function,
			    .parent = parent,
			    .first_child = NO_NODE,
			    .last_child = NO_NODE,
			    .sibling = NO_NODE };
	n->level = parent == NO_NODE ? 0 : t->nodes[parent].level + 1;
	t->hash[slot] = index + 1;
	first = parent == NO_NODE ? &t->first_top : &t->nodes[parent].first_child;
	last = parent == NO_NODE ? &t->last_top : &t->nodes[parent].last_child;
	if (*last == NO_NODE)
		*first = index;
	else
		t->nodes[*last].sibling = index;
	*last = index;
	*ret = index;
	return 0;
}

/* NO_NODE: too deep, or too many. */
static int node_of(struct tree *t, size_t depth, uint32_t function, int32_t *ret)
{
	int32_t parent = depth ? t->stack[depth - 1] : NO_NODE;
	size_t slot;
	int rc;

	*ret = NO_NODE;
	if (depth && parent == NO_NODE)
		return 0;
	if (depth >= t->options->depth) {
		t->nodes[parent].deeper++;
		return 0;
	}
	if (t->n_nodes == t->room_nodes && t->n_nodes < NODES_MAX) {
		rc = grow(t);
		if (rc < 0)
			return rc;
	}
	slot = slot_of(t, parent, function);
	if (t->hash[slot]) {
		*ret = t->hash[slot] - 1;
		return 0;
	}
	if (t->n_nodes == NODES_MAX) {
		if (parent != NO_NODE)
			t->nodes[parent].deeper++;
		return 0;
	}
	return new_node(t, slot, parent, function, ret);
}

static int enter(struct tree *t, const struct store_event *e, bool cut)
{
	int32_t node;
	int rc;

	if (t->depth == t->room_stack) {
		size_t room = t->room_stack ? t->room_stack * 2 : 256;
		int32_t *stack = realloc(t->stack, room * sizeof(*stack));
		uint64_t *entered;

		if (!stack)
			return -ENOMEM;
		t->stack = stack;
		entered = realloc(t->entered, room * sizeof(*entered));
		if (!entered)
			return -ENOMEM;
		t->entered = entered;
		t->room_stack = room;
	}
	rc = node_of(t, t->depth, e->frame.function, &node);
	if (rc < 0)
		return rc;
	if (node != NO_NODE) {
		t->nodes[node].calls++;
		t->nodes[node].before = t->nodes[node].before || cut || e->kind == CALL_INFERRED;
	}
	t->stack[t->depth] = node;
	t->entered[t->depth++] = e->time;
	t->result->slices++;
	return 0;
}

static void leave(struct tree *t, const struct store_event *e, bool cut)
{
	int32_t node = t->stack[--t->depth];

	if (node == NO_NODE)
		return;
	t->nodes[node].ns += e->time - t->entered[t->depth];
	t->nodes[node].unfinished = t->nodes[node].unfinished || cut || e->kind == LEAVE_END || e->kind == LEAVE_GAP;
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct tree *t = user;

	t->first = MIN(t->first, e->time);
	t->last = MAX(t->last, e->time);
	switch (e->type) {
	case STORE_ENTER:
		return enter(t, e, cut);
	case STORE_LEAVE:
		leave(t, e, cut);
		return 0;
	case STORE_GAP:
		t->gaps[e->kind % GAP_KINDS]++;
		t->gap_ns[e->kind % GAP_KINDS] += e->until - e->time;
		t->result->gaps++;
		return 0;
	}
	return 0;
}

/* Three digits and a unit. */
static const char *duration(uint64_t ns, char ret[32])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = (double)ns;
	size_t unit = 0;

	while (value >= 999.95 && unit + 1 < ELEMENTS(units)) {
		value /= 1000;
		unit++;
	}
	snprintf(ret, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return ret;
}

static void print_line(struct tree *t, const struct node *n)
{
	const struct store_function *f = store_function(t->walk->store, n->function);
	char time[32], count[32] = "", name[NAME_SIZE];
	struct buf *b = &t->out.buf;

	if (n->calls > 1)
		snprintf(count, sizeof(count), "\xc3\x97%ju", (uintmax_t)n->calls);
	/* The multiplication sign has two bytes and one column. */
	buf_printf(b, "%s%10s %*s%s  %*s", paint(t, DIM), duration(n->ns, time), count[0] ? 10 : 9, count,
		   paint(t, PLAIN), (int)MIN(2 * n->level, (uint32_t)INDENT_MAX), "");
	buf_printf(b, "%s%s%s", paint(t, BOLD), escape_text(f->name, name, sizeof(name)), paint(t, PLAIN));
	if (n->before)
		buf_printf(b, " %s(began before)%s", paint(t, DIM), paint(t, PLAIN));
	if (n->unfinished)
		buf_printf(b, " %s(unfinished)%s", paint(t, DIM), paint(t, PLAIN));
	buf_printf(b, "\n");
}

static void print_rest(struct tree *t, uint32_t level, const char *text)
{
	buf_printf(&t->out.buf, "%*s%s%s%s\n", (int)MIN(23 + 2 * level, 23u + INDENT_MAX), "", paint(t, DIM), text,
		   paint(t, PLAIN));
}

static int compare_longest(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/* The time that a node needs to be among the width longest of its parent; several may have just that. */
static int least_shown(const struct tree *t, int32_t first, uint64_t *ret_least, uint64_t *ret_more)
{
	_cleanup_free_ uint64_t *times = NULL;
	size_t n = 0, k = 0;

	*ret_least = 0;
	*ret_more = 0;
	for (int32_t i = first; i != NO_NODE; i = t->nodes[i].sibling)
		n++;
	if (n <= t->options->width)
		return 0;
	times = malloc(n * sizeof(*times));
	if (!times)
		return -ENOMEM;
	for (int32_t i = first; i != NO_NODE; i = t->nodes[i].sibling)
		times[k++] = t->nodes[i].ns;
	qsort(times, n, sizeof(*times), compare_longest);
	*ret_least = times[t->options->width - 1];
	*ret_more = n - t->options->width;
	return 0;
}

static int print_nodes(struct tree *t, int32_t first, uint32_t level)
{
	uint64_t least, more, shown = 0, ns = 0;
	char text[96], time[32];
	int rc = least_shown(t, first, &least, &more);

	for (int32_t i = first; rc == 0 && i != NO_NODE; i = t->nodes[i].sibling) {
		const struct node *n = &t->nodes[i];

		if (more && (n->ns < least || shown >= t->options->width)) {
			ns += n->ns;
			continue;
		}
		shown++;
		print_line(t, n);
		out_more(&t->out);
		rc = t->out.error;
		/* Depth is bounded by the options, which clients bound in turn. */
		if (rc == 0)
			rc = print_nodes(t, n->first_child, level + 1);
		if (rc == 0 && n->deeper) {
			snprintf(text, sizeof(text), "... %ju calls deeper", (uintmax_t)n->deeper);
			print_rest(t, level + 1, text);
		}
	}
	if (rc == 0 && more) {
		snprintf(text, sizeof(text), "... %ju more functions, %s", (uintmax_t)more, duration(ns, time));
		print_rest(t, level, text);
	}
	return rc;
}

static void print_header(struct tree *t, const struct store_thread *thread, uint64_t slices)
{
	char name[NAME_SIZE], time[32];
	struct buf *b = &t->out.buf;

	buf_printf(b, "%sthread %u %s%s: %s, %ju calls", paint(t, BOLD), thread->tid,
		   escape_text(thread->name, name, sizeof(name)), paint(t, PLAIN), duration(t->last - t->first, time),
		   (uintmax_t)slices);
	if (thread->unexplained)
		buf_printf(b, ", %ju unexplained", (uintmax_t)thread->unexplained);
	buf_printf(b, "\n");
	for (unsigned i = 0; i < GAP_KINDS; i++) {
		if (t->gaps[i])
			buf_printf(b, "%s%10s  gaps: %ju, %s%s\n", paint(t, RED), duration(t->gap_ns[i], time),
				   (uintmax_t)t->gaps[i], gap_kind_str(i), paint(t, PLAIN));
	}
}

static int print_thread(struct tree *t, size_t index)
{
	struct walk_sink sink = { on_event, t };
	uint64_t slices = t->result->slices;
	int rc;

	t->n_nodes = 0;
	t->depth = 0;
	t->first_top = t->last_top = NO_NODE;
	t->first = UINT64_MAX;
	t->last = 0;
	memset(t->gaps, 0, sizeof(t->gaps));
	memset(t->gap_ns, 0, sizeof(t->gap_ns));
	if (t->hash)
		memset(t->hash, 0, t->hash_size * sizeof(*t->hash));
	rc = walk_thread(t->walk, index, &sink);
	if (rc < 0 || t->first > t->last)
		return rc;
	print_header(t, store_thread(t->walk->store, index), t->result->slices - slices);
	return print_nodes(t, t->first_top, 0);
}

static void tree_done(struct tree *t)
{
	out_done(&t->out);
	free(t->nodes);
	free(t->hash);
	free(t->stack);
	free(t->entered);
}

static int tree_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct export_options options = *o;
	struct walk walk;
	_cleanup_(tree_done) struct tree t = { .out.fd = fd, .walk = &walk, .options = &options, .result = ret };
	int rc = 0;

	options.depth = MIN(o->depth ? o->depth : EXPORT_TREE_DEPTH, (unsigned)EXPORT_TREE_DEPTH_MAX);
	options.width = o->width ? o->width : EXPORT_TREE_WIDTH;
	walk_begin(&walk, s, &options, ret);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		if (walk_wants(&walk, store_thread(s, i)))
			rc = print_thread(&t, i);
	}
	return rc < 0 ? rc : out_end(&t.out);
}

const struct export_ops export_tree = { "tree", ".txt", "a tree of calls, for a terminal", tree_write };
