/* SPDX-License-Identifier: MIT */
/*
 * Where calls of inlined functions begin.
 *
 * gcc marks the entry of each inlined instance, by DW_AT_entry_pc and by a row of the line number table that has the
 * line and column of the function's declaration. Where it duplicated the entry (it unrolled a loop, say) there is a row
 * for each copy, but one DW_AT_entry_pc. LLVM marks nothing: inline-pieces.c.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/code/a64.h"
#include "lib/code/inlines-private.h"

enum {
	MARKER_REACH = 64, /* bytes from a row of a declaration to the code of the instance that it belongs to */
	PATHS_MAX = 16,
	PATH_STEPS_MAX = 256, /* instructions of all paths from a marker */
	A64_SIZE = 4,
	KEYS_MAX = 32,
	READ_STEPS = 4,    /* an instruction, with the search for the instance that it is in */
	BLOCK_REACH = 256, /* bytes before and behind a row in which its block is searched */
};

struct entry_search {
	struct inlines *inlines;
	struct unit *unit;
	uint32_t number;                    /* of the unit */
	struct buf found;                   /* struct inline_entry */
	size_t n_given;                     /* number of them that DW_AT_entry_pc gives */
	struct buf keys;                    /* sorted places of all declarations of inlined functions */
	const struct inline_entry *markers; /* while they are replaced: sorted */
	size_t n_markers;
	struct dwarf_row last; /* the last one at the place of a declaration */
	uint32_t n_last;       /* number of equal ones */
};

static void entry_search_done(struct entry_search *s)
{
	buf_done(&s->found);
	buf_done(&s->keys);
}

static int compare_entries(const void *a, const void *b)
{
	const struct inline_entry *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

static int compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t key_of(uint64_t line, uint64_t column)
{
	return line << 32 | (column & UINT32_MAX);
}

static void add_entry(struct entry_search *s, uint64_t address, uint32_t node)
{
	struct inline_entry e = { address, node };

	s->unit->nodes[node].entered = true;
	buf_add(&s->found, &e, sizeof(e));
}

/* Adds the entries that DW_AT_entry_pc gives, and collects the places of declarations. */
static void find_given(struct entry_search *s)
{
	struct unit *u = s->unit;

	for (uint32_t i = 0; i < u->n_nodes; i++) {
		const struct node *node = &u->nodes[i];
		uint64_t key = key_of(node->decl_line, node->decl_column);

		if (node->parent == NODE_NONE || node->part)
			continue;
		if (node->has_entry &&
		    inlines_function_of(u, i) == inlines_function_of(u, inlines_node_at(u, node->entry)))
			add_entry(s, node->entry, i);
		if (node->decl_column)
			buf_add(&s->keys, &key, sizeof(key));
	}
	s->n_given = s->found.size / sizeof(struct inline_entry);
	if (s->n_given)
		qsort(s->found.data, s->n_given, sizeof(struct inline_entry), compare_entries);
	if (s->keys.size)
		qsort(s->keys.data, s->keys.size / sizeof(uint64_t), sizeof(uint64_t), compare_keys);
}

static bool is_declared_at(struct entry_search *s, const struct node *node, const struct dwarf_row *row)
{
	struct dwarf_unit *u = &s->inlines->dwarf.units[s->number];
	const char *a, *b;

	if (node->decl_line != row->line || node->decl_column != row->column)
		return false;
	if (node->decl_unit == u && node->decl_file == row->file)
		return true;
	a = node->decl_unit ? dwarf_file(&s->inlines->dwarf, node->decl_unit, node->decl_file) : NULL;
	b = dwarf_file(&s->inlines->dwarf, u, row->file);
	return a && b && strcmp(a, b) == 0;
}

/* Returns the innermost of a node and those around it that is an inlined function declared at the row's place. */
static uint32_t find_declared(struct entry_search *s, uint32_t node, const struct dwarf_row *row)
{
	const struct node *nodes = s->unit->nodes;

	while (node != NODE_NONE && (nodes[node].parent == NODE_NONE || !is_declared_at(s, &nodes[node], row)))
		node = dwarf_step(&s->inlines->dwarf, 1) ? nodes[node].parent : NODE_NONE;
	return node;
}

/* Returns how many instances DW_AT_entry_pc gives at the address of a row, of the function that the row marks. */
static uint32_t count_given(struct entry_search *s, const struct dwarf_row *row, uint32_t *ret_node)
{
	const struct inline_entry *list = (const struct inline_entry *)s->found.data;
	size_t low = 0, high = s->n_given;
	uint32_t n = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].address < row->address)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < s->n_given && list[low].address == row->address && dwarf_step(&s->inlines->dwarf, 1); low++)
		if (is_declared_at(s, &s->unit->nodes[list[low].node], row)) {
			*ret_node = list[low].node;
			n++;
		}
	return n;
}

static bool is_within(const struct unit *u, uint32_t node, uint32_t outer)
{
	while (node != NODE_NONE && node > outer)
		node = u->nodes[node].parent;
	return node == outer;
}

static bool is_marker(const struct entry_search *s, uint64_t address, uint32_t node)
{
	const struct inline_entry key = { address, node };

	return s->n_markers && bsearch(&key, s->markers, s->n_markers, sizeof(key), compare_entries);
}

/* Reads an instruction; false also if no steps are left for it. */
static bool read_step(struct entry_search *s, uint64_t at, uint32_t *ret)
{
	return dwarf_step(&s->inlines->dwarf, READ_STEPS) && inlines_instruction(s->inlines, at, ret);
}

/* Finds an instance that a row may mark in the block of its address: after it, else before it. */
static uint32_t find_in_block(struct entry_search *s, const struct dwarf_row *row)
{
	uint32_t function = inlines_function_of(s->unit, inlines_node_at(s->unit, row->address)), found = NODE_NONE,
		 op = 0;

	for (uint64_t at = row->address; found == NODE_NONE && at - row->address < BLOCK_REACH && read_step(s, at, &op);
	     at += A64_SIZE) {
		if (inlines_function_of(s->unit, inlines_node_at(s->unit, at)) != function)
			break;
		found = find_declared(s, inlines_node_at(s->unit, at), row);
		if (inlines_ends_block(op))
			break;
	}
	for (uint64_t at = row->address;
	     found == NODE_NONE && row->address - at < BLOCK_REACH && read_step(s, at -= A64_SIZE, &op);) {
		if (inlines_ends_block(op) || inlines_function_of(s->unit, inlines_node_at(s->unit, at)) != function)
			break;
		found = find_declared(s, inlines_node_at(s->unit, at), row);
	}
	return found;
}

/*
 * Returns true if several equal rows at one address may be several calls: of a recursive function, or where the
 * instance does something twice in the block.
 */
static bool may_be_several(struct entry_search *s, const struct dwarf_row *row, uint32_t node)
{
	uint64_t keys[KEYS_MAX], at = row->address, end = row->address + BLOCK_REACH;
	size_t n = 0;
	uint32_t op;

	if (find_declared(s, s->unit->nodes[node].parent, row) != NODE_NONE)
		return true;
	while (row->address - at < BLOCK_REACH && read_step(s, at - A64_SIZE, &op) && !inlines_ends_block(op))
		at -= A64_SIZE;
	for (; n < KEYS_MAX && at < end && read_step(s, at, &op) && !inlines_ends_block(op); at += A64_SIZE) {
		uint32_t here = inlines_node_at(s->unit, at), declared = find_declared(s, here, row);
		uint64_t key = here == node ? inline_pieces_key(op, at) : 0;

		if (declared != NODE_NONE && declared != node)
			return true;
		for (size_t i = 0; key && i < n; i++)
			if (keys[i] == key)
				return true;
		if (key)
			keys[n++] = key;
	}
	return n == KEYS_MAX || at == end;
}

/*
 * A row at the place of a declaration marks an entry of that function. The instruction may be of the code around the
 * instance, if the compiler moved it there; then the instance follows. Several such rows at one address are several
 * calls whose markers were moved together, or copies of one.
 */
static int on_row(void *user, const struct dwarf_row *row)
{
	struct entry_search *s = user;
	const struct spans *flat = &s->unit->flat;
	uint64_t key = key_of(row->line, row->column);
	uint32_t at, function, found, given;

	if (!row->statement || row->end || row->line > UINT32_MAX || !row->column || row->column > UINT32_MAX ||
	    !bsearch(&key, s->keys.data, s->keys.size / sizeof(key), sizeof(key), compare_keys))
		return 0;
	if (s->last.address != row->address || s->last.line != row->line || s->last.column != row->column)
		s->n_last = 0;
	s->last = *row;
	s->n_last++;
	given = count_given(s, row, &found);
	if (given) {
		if (s->n_last > given && may_be_several(s, row, found))
			s->unit->nodes[found].uncertain = true;
		return 0;
	}
	at = inlines_node_at(s->unit, row->address);
	function = inlines_function_of(s->unit, at);
	/* The function itself begins with such a row, too. */
	if (at == NODE_NONE ||
	    (s->unit->nodes[function].start == row->address && is_declared_at(s, &s->unit->nodes[function], row)))
		return 0;
	found = find_declared(s, at, row);
	if (found == NODE_NONE)
		found = find_in_block(s, row);
	for (size_t i = inlines_span_after(flat, row->address);
	     found == NODE_NONE && i < flat->n && flat->items[i].start - row->address <= MARKER_REACH; i++)
		if (inlines_function_of(s->unit, flat->items[i].of) == function)
			found = find_declared(s, flat->items[i].of, row);
	if (found == NODE_NONE || s->unit->nodes[found].part)
		return 0;
	if (s->n_last > 1 && may_be_several(s, row, found))
		s->unit->nodes[found].uncertain = true;
	add_entry(s, row->address, found);
	return buf_error(&s->found);
}

/* The search for the first instructions that an instance executes for a marker. */
struct marker_paths {
	struct entry_search *search;
	struct inline_entry marker;
	uint32_t function;
	uint64_t begins[PATHS_MAX]; /* of paths that are followed, or are still to be followed */
	size_t n, done, steps;
	bool found;
};

/* An instruction near a marker. */
struct marked_instruction {
	enum a64_kind kind;
	uint64_t target;
	bool link, ends_block;
	bool inside; /* in the instance; a jump is no work of a call */
	bool marked; /* another marker of the instance is there */
};

/* Returns false if the search may not go on through an address. */
static bool look_at(struct marker_paths *p, uint64_t at, struct marked_instruction *ret)
{
	const struct unit *u = p->search->unit;
	uint32_t op, node = inlines_node_at(u, at);

	if (p->steps++ == PATH_STEPS_MAX || !read_step(p->search, at, &op) ||
	    inlines_function_of(u, node) != p->function)
		return false;
	ret->kind = a64_classify(op, at, &ret->link, &ret->target);
	ret->ends_block = inlines_ends_block(op);
	ret->inside = is_within(u, node, p->marker.node) && (ret->kind != A64_BRANCH || ret->link);
	ret->marked = at != p->marker.address && is_marker(p->search, at, p->marker.node);
	return true;
}

static void add_path(struct marker_paths *p, uint64_t at)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->begins[i] == at)
			return;
	if (p->n < PATHS_MAX)
		p->begins[p->n++] = at;
}

static void found_entry(struct marker_paths *p, uint64_t at)
{
	add_entry(p->search, at, p->marker.node);
	p->found = true;
}

/* Follows a path to the end of its block, and adds those that begin there. */
static void follow_path(struct marker_paths *p, uint64_t at)
{
	struct marked_instruction i;

	for (; look_at(p, at, &i); at += A64_SIZE) {
		if (i.inside) {
			found_entry(p, at);
			return;
		}
		if (i.marked) {
			p->found = true;
			return;
		}
		if (!i.ends_block)
			continue;
		if (i.target)
			add_path(p, i.target);
		if (i.kind == A64_CONDITIONAL)
			add_path(p, at + A64_SIZE);
		return;
	}
}

/* Searches backwards from the marker to the begin of its block. */
static void search_before(struct marker_paths *p)
{
	struct marked_instruction i;
	uint64_t at = p->marker.address - A64_SIZE, first = 0;

	for (; look_at(p, at, &i) && !i.ends_block && !i.marked; at -= A64_SIZE)
		first = i.inside ? at : first;
	if (first)
		found_entry(p, first);
}

/* Finds where the call begins that a marker stands for: in its block, or else on the paths from it. */
static void find_begins(struct entry_search *s, const struct inline_entry *marker)
{
	struct marker_paths p = { .search = s, .marker = *marker };

	p.function = inlines_function_of(s->unit, inlines_node_at(s->unit, marker->address));
	follow_path(&p, marker->address);
	if (!p.found)
		search_before(&p);
	if (p.found)
		return;
	while (p.done < p.n)
		follow_path(&p, p.begins[p.done++]);
	if (!p.found)
		add_entry(s, marker->address, marker->node);
}

/*
 * Replaces markers by the entries that they mark: compilers move a marker, which is no instruction, to where the call
 * is not certain yet, and leave several of them before one call.
 */
static void find_marked(struct entry_search *s)
{
	struct buf markers = s->found;
	const struct inline_entry *list = (const struct inline_entry *)markers.data;

	s->markers = list;
	s->n_markers = markers.size / sizeof(*list);
	s->found = (struct buf){ 0 };
	for (size_t i = 0; i < s->n_markers; i++)
		find_begins(s, &list[i]);
	s->markers = NULL;
	buf_done(&markers);
}

/* Nodes without a known entry are entered where their code begins. */
static void find_missing(struct entry_search *s)
{
	for (uint32_t i = 0; i < s->unit->n_nodes; i++) {
		struct node *node = &s->unit->nodes[i];

		if (node->parent == NODE_NONE || node->part || node->entered)
			continue;
		node->uncertain = node->uncertain || node->scattered;
		add_entry(s, node->start, i);
	}
}

int inline_entries_find(struct inlines *s, uint32_t number)
{
	_cleanup_(entry_search_done) struct entry_search search = { .inlines = s,
								    .unit = &s->read[number],
								    .number = number };
	struct unit *u = search.unit;
	struct inline_entry *list;
	size_t n;
	int rc;

	find_given(&search);
	rc = buf_error(&search.keys) ? buf_error(&search.keys) : buf_error(&search.found);
	if (rc < 0)
		return rc;
	/* A damaged table has what precedes the damage. */
	if (search.keys.size && dwarf_rows(&s->dwarf, &s->dwarf.units[number], on_row, &search) == -ENOMEM)
		return -ENOMEM;
	if (search.found.size)
		qsort(search.found.data, search.found.size / sizeof(*list), sizeof(*list), compare_entries);
	find_marked(&search);
	if (!search.found.size && inline_pieces_find(s, number, &search.found) == -ENOMEM)
		return -ENOMEM;
	find_missing(&search);
	if (buf_error(&search.found))
		return buf_error(&search.found);
	list = (struct inline_entry *)search.found.data;
	n = search.found.size / sizeof(*list);
	if (n)
		qsort(list, n, sizeof(*list), compare_entries);
	for (size_t i = 0; i < n; i++)
		if (!i || compare_entries(&list[i], &list[i - 1]) != 0)
			list[u->n_entries++] = list[i];
	u->entries = (struct inline_entry *)TAKE_PTR(search.found.data);
	return 0;
}

size_t inline_entries_at(const struct unit *u, uint64_t address, uint64_t *start, uint64_t *end, size_t *ret_first)
{
	size_t low = 0, high = u->n_entries, n = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (u->entries[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < u->n_entries)
		*end = MIN(*end, u->entries[low].address);
	if (low)
		*start = MAX(*start, u->entries[low - 1].address);
	while (n < low && u->entries[low - 1 - n].address == *start)
		n++;
	*ret_first = low - n;
	return n;
}
