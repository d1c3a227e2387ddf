/* SPDX-License-Identifier: MIT */
/*
 * Execution counts in the text format that AutoFDO's create_llvm_prof reads (--profiler=text), with a block per file:
 *
 *   N, then N lines FIRST-LAST:COUNT: instructions executed one after another, LAST being the branch that ended them
 *   N, then N lines ADDRESS:COUNT: samples; always none
 *   N, then N lines FROM->TO:COUNT: branches taken; TO is 0 if the target is outside this file
 *   // build_id: 0x…
 *   // the file's path
 *
 * Addresses are hexadecimal offsets in the file; counts are decimal.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/edge-counts.h"
#include "daemon/decode/input.h"
#include "daemon/decode/output.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"

enum { SLOTS_FIRST = 1 << 14, SLOTS_MAX = 1 << 26, FLUSH_AT = 256 << 10 };

enum autofdo_kind { RANGE, BRANCH, KINDS };

struct count {
	uint64_t from, to;
	uint64_t n; /* 0: a free slot */
	uint32_t file;
	enum autofdo_kind kind;
};

/* Decode state of a stream. */
struct autofdo_stream {
	struct engine_context context;
	bool pending; /* a branch was taken, and its target is not known yet */
	uint32_t pending_file;
	uint64_t pending_from;
};

struct autofdo_output {
	struct output output;
	struct input *input;
	int fd;
	const struct stream *stream;
	struct autofdo_stream *streams; /* by stream number */
	uint32_t n_streams;
	struct autofdo_stream *current;
	struct count *slots; /* hash table, open addressing; the size is a power of two, and at most half are used */
	size_t n_slots, used;
	/*
	 * Counts of the edges that batches executed and that are not in slots yet; valid for one version of the code.
	 */
	struct edge_counts edges;
	struct edge_table *table; /* the table of last */
	uint32_t last;            /* the last edge of batches, which is counted, while its successor is unknown; or 0 */
	struct native_sums sums;  /* of the piece; next is invalid while last is not 0 */
	uint64_t version;
};

/* Not lib/base/hash: a range is counted each time it executes, and a count is wider than that table's values. */
static struct count *count_slot(struct autofdo_output *a, uint32_t file, enum autofdo_kind kind, uint64_t from,
				uint64_t to)
{
	uint64_t hash = (from * 0x9e3779b97f4a7c15ull) ^ (to * 0xc2b2ae3d27d4eb4full) ^ (file * KINDS + kind);

	for (size_t i = (size_t)(hash ^ hash >> 29);; i++) {
		struct count *c = &a->slots[i & (a->n_slots - 1)];

		if (!c->n || (c->from == from && c->to == to && c->file == file && c->kind == kind))
			return c;
	}
}

static int counts_grow(struct autofdo_output *a)
{
	struct count *old = a->slots;
	size_t n_old = a->n_slots;

	if (n_old == SLOTS_MAX)
		return -EFBIG;
	a->n_slots = n_old ? 2 * n_old : SLOTS_FIRST;
	a->slots = calloc(a->n_slots, sizeof(*a->slots));
	if (!a->slots) {
		a->slots = old;
		a->n_slots = n_old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < n_old; i++)
		if (old[i].n)
			*count_slot(a, old[i].file, old[i].kind, old[i].from, old[i].to) = old[i];
	free(old);
	return 0;
}

static int counts_add_n(struct autofdo_output *a, const struct count *more)
{
	struct count *c;

	if (2 * a->used >= a->n_slots) {
		int rc = counts_grow(a);

		if (rc < 0)
			return rc;
	}
	c = count_slot(a, more->file, more->kind, more->from, more->to);
	a->used += !c->n;
	*c = (struct count){ more->from, more->to, c->n + more->n, more->file, more->kind };
	return 0;
}

static int counts_add(struct autofdo_output *a, uint32_t file, enum autofdo_kind kind, uint64_t from, uint64_t to)
{
	return counts_add_n(a, &(struct count){ from, to, 1, file, kind });
}

static bool locate(struct autofdo_output *a, uint64_t address, uint32_t *ret_file, uint64_t *ret_offset)
{
	return input_where(a->input, a->stream, &a->current->context, address, ret_file, ret_offset);
}

/* Counts the pending branch, if any; has_target: its target is known. */
static int end_branch(struct autofdo_output *a, bool has_target, uint64_t target)
{
	uint64_t to = 0;
	uint32_t file;

	if (!a->current->pending)
		return 0;
	a->current->pending = false;
	if (!has_target || !locate(a, target, &file, &to) || file != a->current->pending_file)
		to = 0;
	return counts_add(a, a->current->pending_file, BRANCH, a->current->pending_from, to);
}

/* Counts branches from the end of a block at `start`; n may be 0. */
static int add_branches(struct autofdo_output *a, uint64_t start, uint32_t size, uint64_t target, uint64_t n)
{
	struct count c = { .n = n, .kind = BRANCH };
	uint32_t file;

	if (!n || !locate(a, start, &c.file, &c.from))
		return 0;
	c.from += size - 4;
	if (!locate(a, target, &file, &c.to) || file != c.file)
		c.to = 0;
	return counts_add_n(a, &c);
}

static int add_edge(struct autofdo_output *a, const struct edge_count *e, uint64_t n)
{
	struct count c = { .n = n, .kind = RANGE };
	int rc;

	if (!n || !locate(a, e->start, &c.file, &c.from))
		return 0;
	c.to = c.from + e->size - 4;
	rc = counts_add_n(a, &c);
	if (rc < 0 || !e->branches)
		return rc;
	return add_branches(a, e->start, e->size, e->successor == NATIVE_UNKNOWN ? e->to : e->successor, n - e->apart);
}

/* Returns the address at which the code continues after the last execution, or NATIVE_UNKNOWN. */
static uint64_t successor(const struct autofdo_output *a)
{
	return a->last ? edge_counts_find(a->table, a->last)->successor : a->sums.next;
}

/*
 * Ends the run of edges: no edge follows the last one directly. Its branch becomes the pending branch, which the next
 * element counts.
 */
static void suspend_last(struct autofdo_output *a)
{
	struct edge_count *e = a->last ? edge_counts_find(a->table, a->last) : NULL;

	if (!e)
		return;
	a->sums.next = e->successor;
	a->last = 0;
	if (!e->branches)
		return;
	e->apart++;
	a->current->pending = locate(a, e->start, &a->current->pending_file, &a->current->pending_from);
	a->current->pending_from += e->size - 4;
}

/* Adds the counts of edges to those of files. */
static int add_edges(struct autofdo_output *a)
{
	const struct edge_counts *c = &a->edges;
	int rc = 0;

	suspend_last(a);
	for (size_t i = 0; i < c->n_tables && rc == 0; i++) {
		const struct edge_table *t = &c->tables[i];

		for (size_t k = 0; k < t->n && rc == 0; k++)
			rc = add_edge(a, &t->list[k], t->cells[t->list[k].edge].n);
	}
	for (size_t i = 0; i < c->n_targets && rc == 0; i++)
		if (c->targets[i].n)
			rc =
			    add_branches(a, c->targets[i].start, c->targets[i].size, c->targets[i].to, c->targets[i].n);
	edge_counts_clear(&a->edges);
	return rc;
}

static int on_range(struct autofdo_output *a, const struct element *e)
{
	uint64_t first, last = e->range.end - e->range.last_size;
	uint32_t file;
	int rc = end_branch(a, !e->torn, e->range.start);

	if (rc < 0 || !e->range.count || !locate(a, e->range.start, &file, &first))
		return rc;
	last = first + (last - e->range.start);
	rc = counts_add(a, file, RANGE, first, last);
	a->current->pending = e->taken && (e->instr == INSTR_BR || e->instr == INSTR_IBR);
	a->current->pending_file = file;
	a->current->pending_from = last;
	return rc;
}

/*
 * Changes the context of the stream. Counts of edges are valid for one version of the code: if that changes, they are
 * added to the counts of files first.
 */
static int set_context(struct autofdo_output *a, const struct engine_context *context)
{
	uint64_t version = input_code_version(a->input, a->stream, context);
	int rc = version != a->version ? add_edges(a) : 0;

	a->version = version;
	a->current->context = *context;
	return rc;
}

static int autofdo_element(struct output *o, const struct element *e)
{
	struct autofdo_output *a = (struct autofdo_output *)o;
	struct engine_context context = a->current->context;

	if (!element_is_aside(e))
		suspend_last(a);
	switch (e->kind) {
	case ELEM_RANGE:
		return on_range(a, e);
	case ELEM_CONTEXT:
		context.has_ctxid = e->context.has_ctxid;
		context.ctxid = e->context.ctxid;
		context.has_vmid = e->context.has_vmid;
		context.vmid = e->context.vmid;
		return set_context(a, &context);
	case ELEM_TIMESTAMP:
		context.has_time = true;
		context.time = e->value;
		return set_context(a, &context);
	case ELEM_NO_IMAGE:
		return end_branch(a, true, e->address);
	case ELEM_EXCEPTION:
		/* The exception was taken at the target of the branch, before the instruction there. */
		return end_branch(a, e->exception.has_ret, e->exception.ret);
	case ELEM_RANGE_NOPATH:
	case ELEM_UNKNOWN_ADDRESS:
	case ELEM_TRACE_ON:
	case ELEM_NO_SYNC:
	case ELEM_END:
		return end_branch(a, false, 0);
	default:
		return 0;
	}
}

/*
 * Sets another target for the last edge, an indirect branch. The executions with the target before are counted in the
 * table of targets.
 */
static int set_last_target(struct autofdo_output *a, struct edge_cell *cell, const struct basic_block *to)
{
	struct edge_count *e = edge_counts_find(a->table, a->last);
	uint64_t n = cell->n - 1 - e->apart;
	int rc = e->to == to->start ? 0 : edge_counts_add_target(&a->edges, e, e->to, n);

	if (rc == 0 && e->to != to->start) {
		e->apart += n;
		e->to = to->start;
	}
	return rc;
}

/*
 * Completes the last edge, which another block followed the time before, and records the block as its successor. torn:
 * control did not come from that edge.
 */
static int complete_last(struct autofdo_output *a, const struct native_batch *b, uint32_t block, bool torn)
{
	struct edge_cell *cell;
	int rc = 0;

	if (a->last && torn)
		suspend_last(a);
	if (!a->last)
		return end_branch(a, !torn, b->blocks[block].start);
	cell = &a->table->cells[a->last];
	if (edge_counts_find(a->table, a->last)->successor == NATIVE_UNKNOWN)
		rc = set_last_target(a, cell, &b->blocks[block]);
	cell->next = a->table->numbering == b->numbering ? block : 0;
	return rc;
}

/* Counts a block whose branch is unconditional, but, according to the trace, was not taken; or one without code. */
static int count_without_branch(struct autofdo_output *a, const struct basic_block *b)
{
	uint32_t file;
	uint64_t first;

	a->last = 0;
	a->sums.next = block_end(b);
	a->sums.instructions += b->count;
	return b->count && locate(a, b->start, &file, &first)
		   ? counts_add(a, file, RANGE, first, first + 4 * (uint64_t)(b->count - 1))
		   : 0;
}

/*
 * Handles an edge that is executed for the first time, or whose block is not the one that followed the last edge the
 * time before. Returns 1 if the caller must count it in its cell, 0 if it is counted already, or negative errno.
 */
static int on_new_edge(struct autofdo_output *a, const struct native_batch *b, struct edge_table *t, uint32_t edge)
{
	const struct basic_block *block = &b->blocks[edge_block(edge)];
	bool untaken = block->always && !edge_is_taken(edge);
	uint64_t next = successor(a);
	bool torn = (next != NATIVE_UNKNOWN && next != block->start) || untaken;
	int rc = complete_last(a, b, edge_block(edge), torn);

	a->sums.torn += torn;
	if (rc == 0 && (untaken || !block->count))
		return count_without_branch(a, block);
	if (rc == 0 && !t->cells[edge].n)
		rc = edge_counts_add(t, b, edge);
	return rc < 0 ? rc : 1;
}

static int on_event(struct autofdo_output *a, const struct native_batch *b, size_t event)
{
	struct element e = b->events[event];

	a->sums.next = successor(a);
	if (!element_is_aside(&e)) {
		suspend_last(a);
		e.torn = e.kind == ELEM_RANGE && a->sums.next != NATIVE_UNKNOWN && a->sums.next != e.range.start;
	}
	native_sum_event(&a->sums, b, event);
	return autofdo_element(&a->output, &e);
}

/*
 * Handles an event, a cycle count, or an edge for on_new_edge(); autofdo_batch() handles all other edges of a batch.
 * Returns 1 if the caller must count the edge in its cell, 0 if not, or negative errno.
 */
static int on_other_member(struct autofdo_output *a, const struct native_batch *b, struct edge_table *t, uint32_t edge,
			   size_t *event)
{
	if (!(edge & NATIVE_CYCLES))
		return on_new_edge(a, b, t, edge);
	/* autofdo_batch() has counted it as a range. */
	a->sums.ranges--;
	if (edge == NATIVE_EVENT)
		return on_event(a, b, (*event)++);
	a->sums.others++;
	return 0;
}

static int find_table(struct autofdo_output *a, const struct native_batch *b, struct edge_table **ret)
{
	int rc = edge_counts_table(&a->edges, b, ret);

	if (rc != -EFBIG)
		return rc;
	rc = add_edges(a);
	edge_counts_done(&a->edges);
	return rc < 0 ? rc : edge_counts_table(&a->edges, b, ret);
}

static int autofdo_batch(struct output *o, const struct native_batch *b)
{
	struct autofdo_output *a = (struct autofdo_output *)o;
	struct edge_table *t;
	size_t event = 0;
	uint64_t instructions = 0;
	uint32_t last;
	int rc = find_table(a, b, &t);

	if (rc < 0)
		return rc;
	a->sums.ranges += b->n;
	/*
	 * The number of the preceding edge if that is in this table; 0: it is in another table (a->last), or there is
	 * none.
	 */
	last = a->table == t ? a->last : 0;
	for (size_t i = 0; i < b->n && rc >= 0; i++) {
		uint32_t edge = b->edges[i];

		/* Events and cycle counts never equal the number of a block. */
		if (__builtin_expect(t->cells[last].next == edge_block(edge) && t->cells[edge].n, 1)) {
			rc = 1;
		} else {
			if (last) {
				a->last = last;
				a->table = t;
			}
			rc = on_other_member(a, b, t, edge, &event);
		}
		if (rc == 1) {
			t->cells[edge].n++;
			instructions += t->cells[edge].instructions;
			last = edge;
		} else {
			last = a->table == t ? a->last : 0;
		}
	}
	if (last) {
		a->last = last;
		a->table = t;
	}
	a->sums.instructions += instructions;
	return MIN(rc, 0);
}

static const struct native_sums *autofdo_sums(const struct output *o)
{
	return &((const struct autofdo_output *)o)->sums;
}

static int autofdo_piece(struct output *o, const struct pd_piece *p)
{
	struct autofdo_output *a = (struct autofdo_output *)o;
	int rc = add_edges(a);

	/* Blocks are numbered anew. */
	a->sums = (struct native_sums){ .next = NATIVE_UNKNOWN };
	return rc;
}

static int autofdo_begin(struct output *o, const struct stream *s)
{
	struct autofdo_output *a = (struct autofdo_output *)o;
	int rc = a->current ? add_edges(a) : 0;

	if (rc < 0)
		return rc;

	if (s->number >= a->n_streams) {
		uint32_t n = MAX(2 * a->n_streams, s->number + 1);
		struct autofdo_stream *streams = reallocarray(a->streams, n, sizeof(*streams));

		if (!streams)
			return -ENOMEM;
		memset(streams + a->n_streams, 0, (n - a->n_streams) * sizeof(*streams));
		a->streams = streams;
		a->n_streams = n;
	}
	a->stream = s;
	a->current = &a->streams[s->number];
	a->version = input_code_version(a->input, s, &a->current->context);
	return 0;
}

static int autofdo_end(struct output *o, const struct stream *s)
{
	int rc = autofdo_begin(o, s);

	return rc < 0 ? rc : end_branch((struct autofdo_output *)o, false, 0);
}

static int compare_counts(const void *left, const void *right)
{
	const struct count *a = left, *b = right;

	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return (a->to > b->to) - (a->to < b->to);
}

static int autofdo_flush(struct autofdo_output *a, struct buf *out)
{
	int rc = buf_error(out);

	if (rc == 0)
		rc = io_write(a->fd, out->data, out->size);
	buf_clear(out);
	return rc;
}

/* Prints the counts of one kind, which begin at slot `at`; *ret_next is the slot after them. */
static int print_counts(struct autofdo_output *a, struct buf *out, uint32_t file, enum autofdo_kind kind, size_t at,
			size_t *ret_next)
{
	const struct count *list = a->slots;
	size_t end = at;
	int rc = 0;

	while (end < a->used && list[end].file == file && list[end].kind == kind)
		end++;
	buf_printf(out, "%zu\n", end - at);
	for (; rc == 0 && at < end; at++) {
		buf_printf(out, "%" PRIx64 "%s%" PRIx64 ":%" PRIu64 "\n", list[at].from, kind == RANGE ? "-" : "->",
			   list[at].to, list[at].n);
		if (out->size >= FLUSH_AT)
			rc = autofdo_flush(a, out);
	}
	*ret_next = end;
	return rc;
}

static int print_files(struct autofdo_output *a)
{
	_cleanup_buf_ struct buf out = { 0 };
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < a->used;) {
		uint32_t file = a->slots[at].file;
		const struct image_file *f = image_file(a->input->images, file);
		char id[2 * IMAGE_BUILD_ID_MAX + 1];

		rc = print_counts(a, &out, file, RANGE, at, &at);
		buf_printf(&out, "0\n");
		if (rc == 0)
			rc = print_counts(a, &out, file, BRANCH, at, &at);
		if (input_build_id(f, id))
			buf_printf(&out, "// build_id: 0x%s\n", id);
		buf_printf(&out, "// %s\n\n", esc(f->path));
	}
	return rc < 0 ? rc : autofdo_flush(a, &out);
}

static int autofdo_finish(struct output *o)
{
	struct autofdo_output *a = (struct autofdo_output *)o;
	size_t n = 0;

	/* Replaces the hash table by a sorted list at its front; lookups are no longer possible. */
	for (size_t i = 0; i < a->n_slots; i++)
		if (a->slots[i].n)
			a->slots[n++] = a->slots[i];
	if (n)
		qsort(a->slots, n, sizeof(*a->slots), compare_counts);
	return print_files(a);
}

static void autofdo_free(struct output *o)
{
	struct autofdo_output *a = (struct autofdo_output *)o;

	edge_counts_done(&a->edges);
	free(a->slots);
	free(a->streams);
	free(a);
}

int output_autofdo_new(struct input *input, int fd, struct output **ret)
{
	static const struct output_ops ops = { .format = DECODE_FORMAT_AUTOFDO,
					       .begin = autofdo_begin,
					       .element = autofdo_element,
					       .end = autofdo_end,
					       .finish = autofdo_finish,
					       .free = autofdo_free,
					       .piece = autofdo_piece,
					       .batch = autofdo_batch,
					       .sums = autofdo_sums };
	struct autofdo_output *a;

	if (!input->ops->where)
		return -EOPNOTSUPP;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->output.ops = &ops;
	a->input = input;
	a->fd = fd;
	*ret = &a->output;
	return 0;
}
