/* SPDX-License-Identifier: MIT */
/*
 * Where calls of inlined functions begin in code without markers, as LLVM makes it. The instructions of an instance are
 * divided into pieces: a piece ends with its basic block, and where the source places in it begin again, as they do
 * where a loop was unrolled. The first piece is the begin of a call, and so are its copies, which are of the same
 * places. Copies are recognised by loads, stores and calls; by those of the functions in the instance if it has none.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/code/a64.h"
#include "lib/code/inlines-private.h"

enum {
	A64_SIZE = 4,
	KEYS_MAX = 8,         /* of a block */
	BLOCKS_MAX = 1 << 14, /* of an instance */
};

/* From an address on, instructions are of this source place. */
struct place_row {
	uint64_t address, place;
};

struct code_jump {
	uint64_t from, to;
};

/* Instructions of a block by which copies are recognised. */
struct block_key {
	uint64_t place, key;
	uint32_t count;
};

/* The instructions of an instance in one basic block. */
struct code_block {
	uint64_t start, place; /* of its first instruction */
	uint32_t operation;
	bool repeats; /* another instruction is like the first one */
	struct block_key keys[KEYS_MAX];
	size_t n;
};

struct piece_search {
	struct inlines *inlines;
	struct unit *unit;
	struct buf rows;           /* struct place_row, sorted */
	struct buf by_from, by_to; /* struct code_jump, sorted by either */
	struct buf blocks;         /* struct code_block, of one instance */
	struct buf first_keys;     /* struct inline_entry: where the first key of each block is, by its index */
	struct buf *to;
};

static void piece_search_done(struct piece_search *s)
{
	buf_done(&s->rows);
	buf_done(&s->by_from);
	buf_done(&s->by_to);
	buf_done(&s->blocks);
	buf_done(&s->first_keys);
}

static int compare_u64(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int compare_place_rows(const void *a, const void *b)
{
	const struct place_row *x = a, *y = b;

	return compare_u64(x->address, y->address);
}

static int compare_from(const void *a, const void *b)
{
	const struct code_jump *x = a, *y = b;

	return compare_u64(x->from, y->from);
}

static int compare_to(const void *a, const void *b)
{
	const struct code_jump *x = a, *y = b;

	return compare_u64(x->to, y->to);
}

/* Rows of one address follow one another; the last one is valid. */
static int on_row(void *user, const struct dwarf_row *row)
{
	struct piece_search *s = user;
	struct place_row place = { row->address,
				   row->end || !row->line ? 0 : row->file << 48 ^ row->line << 16 ^ row->column };
	struct place_row *last = s->rows.size ? (struct place_row *)(s->rows.data + s->rows.size) - 1 : NULL;

	if (last && last->address == place.address)
		*last = place;
	else
		buf_add(&s->rows, &place, sizeof(place));
	return buf_error(&s->rows);
}

/* Returns the number of the first item whose key, its n-th u64, is not below value. */
static size_t lower_bound(const struct buf *b, size_t item, size_t key, uint64_t value)
{
	size_t low = 0, high = b->size / item;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t here = ((const uint64_t *)(b->data + middle * item))[key];

		if (here < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t place_at(const struct piece_search *s, uint64_t address)
{
	size_t after = lower_bound(&s->rows, sizeof(struct place_row), 0, address + 1);

	return after ? ((const struct place_row *)s->rows.data)[after - 1].place : 0;
}

uint64_t inline_pieces_key(uint32_t op, uint64_t at)
{
	uint64_t target;
	bool link;

	/* Arm ARM, C4.1: loads and stores; not those of literals. */
	if ((op & 0x0a000000) == 0x08000000)
		return op & ~0x3ffu;
	a64_classify(op, at, &link, &target);
	return link ? target << 1 | 1 : 0;
}

/* Collects all jumps of the unit. */
static int find_jumps(struct piece_search *s)
{
	for (size_t i = 0; i < s->unit->flat.n; i++) {
		const struct inline_span *span = &s->unit->flat.items[i];
		uint32_t op;

		for (uint64_t at = span->start; at < span->end && inlines_instruction(s->inlines, at, &op);
		     at += A64_SIZE) {
			struct code_jump jump = { .from = at };
			bool link;

			if (!dwarf_step(&s->inlines->dwarf, 1))
				return -EFBIG;
			if (!inlines_ends_block(op))
				continue;
			a64_classify(op, at, &link, &jump.to);
			buf_add(&s->by_from, &jump, sizeof(jump));
			if (jump.to)
				buf_add(&s->by_to, &jump, sizeof(jump));
		}
	}
	if (buf_error(&s->by_from) || buf_error(&s->by_to))
		return -ENOMEM;
	if (s->by_from.size)
		qsort(s->by_from.data, s->by_from.size / sizeof(struct code_jump), sizeof(struct code_jump),
		      compare_from);
	if (s->by_to.size)
		qsort(s->by_to.data, s->by_to.size / sizeof(struct code_jump), sizeof(struct code_jump), compare_to);
	return 0;
}

static const struct code_jump *jumps_to(const struct piece_search *s, uint64_t address, size_t *ret_left)
{
	size_t n = s->by_to.size / sizeof(struct code_jump),
	       first = lower_bound(&s->by_to, sizeof(struct code_jump), 1, address);

	*ret_left = n - first;
	return *ret_left ? (const struct code_jump *)s->by_to.data + first : NULL;
}

/* Returns true if both addresses are in one basic block, the first one not behind the other. */
static bool same_block(const struct piece_search *s, uint64_t a, uint64_t b)
{
	size_t from = lower_bound(&s->by_from, sizeof(struct code_jump), 0, a), left;
	const struct code_jump *to = jumps_to(s, a + 1, &left);

	return (from * sizeof(struct code_jump) == s->by_from.size ||
		((const struct code_jump *)s->by_from.data)[from].from >= b) &&
	       (!left || to->to > b);
}

/* Makes a constant or an address, which compilers move out of loops and share between copies. */
static bool is_movable(uint32_t op)
{
	return (op & 0x1f000000) == 0x10000000 || (op & 0x1f800000) == 0x12800000 || op == 0xd503201f;
}

/* Returns an instruction without its operands. */
static uint32_t operation_of(uint32_t op)
{
	return op >> 21;
}

/* Adds an instruction to the last block, or begins another. */
static void add_instruction(struct piece_search *s, uint64_t node, uint64_t last, uint64_t at, uint32_t op)
{
	struct code_block *b = s->blocks.size ? (struct code_block *)(s->blocks.data + s->blocks.size) - 1 : NULL;
	struct block_key key = { place_at(s, at) ^ node * 0x9e3779b97f4a7c15u, inline_pieces_key(op, at), 1 };
	size_t i = 0;

	if (!b || !same_block(s, last, at)) {
		struct code_block new = { .start = at, .place = key.place, .operation = operation_of(op) };

		if (s->blocks.size == BLOCKS_MAX * sizeof(new))
			return;
		buf_add(&s->blocks, &new, sizeof(new));
		if (buf_error(&s->blocks))
			return;
		b = (struct code_block *)(s->blocks.data + s->blocks.size) - 1;
	} else if (key.place == b->place && operation_of(op) == b->operation)
		b->repeats = true;
	if (!key.key)
		return;
	while (i < b->n && (b->keys[i].place != key.place || b->keys[i].key != key.key))
		i++;
	if (i < b->n)
		b->keys[i].count++;
	else if (b->n < KEYS_MAX)
		b->keys[b->n++] = key;
	if (i == 0) {
		struct inline_entry e = { at, (uint32_t)(s->blocks.size / sizeof(*b) - 1) };

		buf_add(&s->first_keys, &e, sizeof(e));
	}
}

static size_t count_common(const struct code_block *a, const struct code_block *b)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (a->keys[i].place == b->keys[k].place && !(a->keys[i].key & 1) == !(b->keys[k].key & 1)) {
				n++;
				break;
			}
	return n;
}

/*
 * Returns true if a block is whole copies of a piece: all keys are there equally often, or at least half of them, and
 * others several times in each copy.
 */
static bool is_clear(const struct code_block *b)
{
	uint32_t copies = b->n ? b->keys[0].count : 1;
	size_t equal = 0;

	for (size_t i = 0; i < b->n; i++) {
		if (b->keys[i].count % copies)
			return false;
		equal += b->keys[i].count == copies;
	}
	return equal == b->n || (copies > 1 && 2 * equal >= b->n);
}

/* Returns true if one node is the other one, or inside it. */
static bool is_inside(const struct piece_search *s, uint32_t at, uint32_t node)
{
	while (at != NODE_NONE && at > node && dwarf_step(&s->inlines->dwarf, 1))
		at = s->unit->nodes[at].parent;
	return at == node;
}

static bool is_within(const struct piece_search *s, uint64_t address, uint32_t node)
{
	return is_inside(s, inlines_node_at(s->unit, address), node);
}

/* Returns true if control may come to the block of an address from within an instance. */
static bool comes_from_within(const struct piece_search *s, uint64_t address, uint32_t node)
{
	const struct code_jump *jump;
	uint64_t leader = address;
	size_t left;
	uint32_t op;

	while (dwarf_step(&s->inlines->dwarf, 1) && inlines_instruction(s->inlines, leader - A64_SIZE, &op) &&
	       same_block(s, leader - A64_SIZE, leader) && address - leader < 4096)
		leader -= A64_SIZE;
	for (jump = jumps_to(s, leader, &left); left && jump->to == leader; left--, jump++)
		if (!dwarf_step(&s->inlines->dwarf, 1) || is_within(s, jump->from, node))
			return true;
	return is_within(s, leader - A64_SIZE, node) && inlines_instruction(s->inlines, leader - A64_SIZE, &op) &&
	       (op & 0xfc000000) != 0x14000000;
}

static void begin_call(struct piece_search *s, uint32_t node, uint64_t address)
{
	struct inline_entry e = { address, node };

	s->unit->nodes[node].entered = true;
	buf_add(s->to, &e, sizeof(e));
}

/* Begins a call wherever the first key of a block is. *next: index in first_keys, in the order of blocks; advances. */
static void begin_calls(struct piece_search *s, uint32_t node, size_t block, size_t *next)
{
	const struct inline_entry *e = (const struct inline_entry *)s->first_keys.data;
	size_t n = s->first_keys.size / sizeof(*e);

	while (*next < n && e[*next].node < block)
		++*next;
	for (; *next < n && e[*next].node == block; ++*next)
		begin_call(s, node, e[*next].address);
}

/*
 * Returns the block that an instance begins with: the first one, unless control comes to it from within the instance,
 * and to one behind it only from elsewhere. NULL: it has no block.
 */
static const struct code_block *first_block(const struct piece_search *s, uint32_t node)
{
	const struct code_block *list = (const struct code_block *)s->blocks.data, *first = NULL;
	size_t n = s->blocks.size / sizeof(*list);

	for (size_t i = 0; i < n; i++) {
		if (list[i].start < s->unit->nodes[node].start)
			continue;
		if (!comes_from_within(s, list[i].start, node))
			return &list[i];
		first = first ? first : &list[i];
	}
	return first;
}

/* Returns true if blocks without keys may be several calls, or one that begins elsewhere. */
static bool may_begin_elsewhere(const struct piece_search *s, uint32_t node, const struct code_block *first)
{
	const struct code_block *list = (const struct code_block *)s->blocks.data;
	size_t n = s->blocks.size / sizeof(*list);
	bool found = first->repeats || comes_from_within(s, first->start, node);

	for (size_t i = 0; i < n && !found; i++)
		found =
		    &list[i] != first && (list[i].place == first->place || !comes_from_within(s, list[i].start, node));
	return found;
}

/* Finds the begins of calls among the blocks of an instance. first: the one that it begins with. */
static void find_begins(struct piece_search *s, uint32_t node, const struct code_block *first)
{
	const struct code_block *list = (const struct code_block *)s->blocks.data;
	size_t n = s->blocks.size / sizeof(*list), next = 0;
	struct node *of = &s->unit->nodes[node];

	if (!first->n) {
		begin_call(s, node, first->start);
		of->uncertain = may_begin_elsewhere(s, node, first);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		size_t common = count_common(first, &list[i]);
		bool within = common && comes_from_within(s, list[i].start, node);

		/* Where few keys are in common, the block is a later part of the call. */
		if (2 * common < first->n || !common)
			continue;
		if (!is_clear(&list[i]) || common < first->n || within)
			of->uncertain = true;
		/* A jump to its begin from within the call is a loop of the function. */
		if (within && &list[i] == first)
			begin_call(s, node, first->start);
		else if (!within)
			begin_calls(s, node, i, &next);
	}
}

static int compare_spans(const void *a, const void *b)
{
	const struct inline_span *x = *(const struct inline_span *const *)a, *y = *(const struct inline_span *const *)b;

	return compare_u64(x->start, y->start);
}

static int compare_spans_by_node(const void *a, const void *b)
{
	const struct inline_span *x = *(const struct inline_span *const *)a, *y = *(const struct inline_span *const *)b;

	return x->of != y->of ? compare_u64(x->of, y->of) : compare_u64(x->start, y->start);
}

/* Divides spans into blocks. */
static int find_blocks(struct piece_search *s, const struct inline_span *const *spans, size_t n)
{
	uint64_t last = 0;
	uint32_t op;

	buf_clear(&s->blocks);
	buf_clear(&s->first_keys);
	for (size_t i = 0; i < n; i++)
		for (uint64_t at = spans[i]->start; at < spans[i]->end && inlines_instruction(s->inlines, at, &op);
		     at += A64_SIZE) {
			if (!dwarf_step(&s->inlines->dwarf, 1))
				return -EFBIG;
			if (is_movable(op) || (op & 0xfc000000) == 0x14000000)
				continue;
			add_instruction(s, spans[i]->of, last, at, op);
			last = at;
		}
	return buf_error(&s->blocks) ? buf_error(&s->blocks) : buf_error(&s->first_keys);
}

/*
 * Finds the begins of an instance's calls. Where its own instructions do not show copies, those of the functions that
 * it inlined do. spans: sorted by node, the first n of them of the instance, then those of the functions in it.
 */
static int find_in_node(struct piece_search *s, const struct inline_span *const *spans, size_t n, size_t n_all)
{
	uint32_t node = spans[0]->of;
	const struct code_block *first;
	int rc = find_blocks(s, spans, n);

	first = rc == 0 ? first_block(s, node) : NULL;
	if (rc == 0 && (!first || !first->n)) {
		_cleanup_free_ const struct inline_span **within = NULL;

		while (n < n_all && is_inside(s, spans[n]->of, node))
			n++;
		within = malloc(n * sizeof(*within));
		if (!within)
			return -ENOMEM;
		memcpy(within, spans, n * sizeof(*within));
		qsort(within, n, sizeof(*within), compare_spans);
		rc = find_blocks(s, within, n);
		first = rc == 0 ? first_block(s, node) : NULL;
	}
	if (first)
		find_begins(s, node, first);
	return rc;
}

static int find_all(struct piece_search *s)
{
	const struct spans *flat = &s->unit->flat;
	_cleanup_free_ const struct inline_span **order = malloc((flat->n + 1) * sizeof(*order));
	size_t n;
	int rc = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < flat->n; i++)
		order[i] = &flat->items[i];
	if (flat->n)
		qsort(order, flat->n, sizeof(*order), compare_spans_by_node);
	for (size_t i = 0; rc == 0 && i < flat->n; i += n) {
		uint32_t node = order[i]->of;

		for (n = 1; i + n < flat->n && order[i + n]->of == node;)
			n++;
		if (s->unit->nodes[node].parent != NODE_NONE)
			rc = find_in_node(s, &order[i], n, flat->n - i);
	}
	return rc < 0 ? rc : buf_error(s->to);
}

int inline_pieces_find(struct inlines *s, uint32_t number, struct buf *to)
{
	_cleanup_(piece_search_done) struct piece_search search = { .inlines = s, .unit = &s->read[number], .to = to };
	int rc = dwarf_rows(&s->dwarf, &s->dwarf.units[number], on_row, &search);

	if (rc < 0)
		return rc;
	if (search.rows.size)
		qsort(search.rows.data, search.rows.size / sizeof(struct place_row), sizeof(struct place_row),
		      compare_place_rows);
	rc = find_jumps(&search);
	return rc < 0 ? rc : find_all(&search);
}
