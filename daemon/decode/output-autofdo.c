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
	/* What batches execute, not yet in slots; it holds for one version of the code. */
	struct edge_counts edges;
	struct edge_count *last; /* a branch that was taken, and whose target is not known yet; or NULL */
	uint64_t next;           /* where the next range is expected to begin, or NATIVE_UNKNOWN */
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

static bool where(struct autofdo_output *a, uint64_t address, uint32_t *ret_file, uint64_t *ret_offset)
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
	if (!has_target || !where(a, target, &file, &to) || file != a->current->pending_file)
		to = 0;
	return counts_add(a, a->current->pending_file, BRANCH, a->current->pending_from, to);
}

/* Counts branches from the end of a block at `start`; n may be 0. */
static int add_branches(struct autofdo_output *a, uint64_t start, uint32_t size, uint64_t target, uint64_t n)
{
	struct count c = { .n = n, .kind = BRANCH };
	uint32_t file;

	if (!n || !where(a, start, &c.file, &c.from))
		return 0;
	c.from += size - 4;
	if (!where(a, target, &file, &c.to) || file != c.file)
		c.to = 0;
	return counts_add_n(a, &c);
}

static int add_edge(struct autofdo_output *a, const struct edge_count *e)
{
	struct count c = { .n = e->n, .kind = RANGE };
	int rc;

	if (!where(a, e->start, &c.file, &c.from))
		return 0;
	c.to = c.from + e->size - 4;
	rc = counts_add_n(a, &c);
	if (rc < 0 || !e->branches)
		return rc;
	return e->target == UINT64_MAX ? add_branches(a, e->start, e->size, e->to, e->n_to)
				       : add_branches(a, e->start, e->size, e->target, e->n - e->apart);
}

/* The branch that was taken last is counted where its target is known: by the next element. */
static void settle_last(struct autofdo_output *a)
{
	struct edge_count *e = a->last;

	if (!e)
		return;
	e->apart++;
	a->last = NULL;
	a->current->pending = where(a, e->start, &a->current->pending_file, &a->current->pending_from);
	a->current->pending_from += e->size - 4;
}

/* Adds the counts of edges to those of files. */
static int add_edges(struct autofdo_output *a)
{
	const struct edge_counts *c = &a->edges;
	int rc = 0;

	settle_last(a);
	for (size_t i = 0; i < c->n_edges && rc == 0; i++)
		if (c->edges[i].n)
			rc = add_edge(a, &c->edges[i]);
	for (size_t i = 0; i < c->n_targets && rc == 0; i++)
		if (c->targets[i].n)
			rc =
			    add_branches(a, c->targets[i].start, c->targets[i].size, c->targets[i].to, c->targets[i].n);
	edge_counts_done(&a->edges);
	return rc;
}

static int on_range(struct autofdo_output *a, const struct element *e)
{
	uint64_t first, last = e->range.end - e->range.last_size;
	uint32_t file;
	int rc = end_branch(a, !e->torn, e->range.start);

	if (rc < 0 || !e->range.count || !where(a, e->range.start, &file, &first))
		return rc;
	last = first + (last - e->range.start);
	rc = counts_add(a, file, RANGE, first, last);
	a->current->pending = e->taken && (e->instr == INSTR_BR || e->instr == INSTR_IBR);
	a->current->pending_file = file;
	a->current->pending_from = last;
	return rc;
}

/* The counts of edges hold in one version of the code. */
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
		settle_last(a);
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

/* Counts the branch that was taken last, which another edge follows; torn: not from there. */
static int end_last(struct autofdo_output *a, uint64_t start, bool torn)
{
	struct edge_count *e = a->last;

	if (a->current->pending)
		return end_branch(a, !torn, start);
	if (!e || (e->target == start && !torn))
		return 0;
	if (torn) {
		settle_last(a);
		return end_branch(a, false, 0);
	}
	if (e->to != start) {
		int rc = edge_counts_add_target(&a->edges, e, e->to, e->n_to);

		if (rc < 0)
			return rc;
		e->to = start;
		e->n_to = 0;
	}
	e->n_to++;
	return 0;
}

static int add_new_edge(struct autofdo_output *a, const struct basic_block *b, bool taken, struct edge_count **ret)
{
	const bool branches = taken && (b->kind == INSTR_BR || b->kind == INSTR_IBR);
	struct edge_count *e;
	int rc;

	a->last = NULL;
	rc = edge_counts_make_room(&a->edges);
	if (rc < 0)
		return rc;
	e = edge_counts_find(&a->edges, b, taken);
	if (!e->n) {
		*e = (struct edge_count){ .start = b->start, .target = UINT64_MAX, .size = 4 * b->count };
		e->taken = taken;
		e->branches = branches;
		if (branches && b->kind == INSTR_BR)
			e->target = b->target;
		a->edges.used_edges++;
	}
	*ret = e;
	return 0;
}

static inline int on_edge(struct autofdo_output *a, const struct basic_block *b, bool taken)
{
	bool torn = ((a->next != b->start) & (a->next != NATIVE_UNKNOWN)) | (b->always & !taken);
	struct edge_count *e;
	int rc = end_last(a, b->start, torn);

	a->next = taken ? b->target : block_end(b);
	if (rc < 0 || !b->count) {
		a->last = NULL;
		return rc;
	}
	e = edge_counts_find(&a->edges, b, taken);
	if (!e || !e->n)
		rc = add_new_edge(a, b, taken, &e);
	if (rc < 0)
		return rc;
	e->n++;
	a->last = e->branches ? e : NULL;
	return 0;
}

static int on_event(struct autofdo_output *a, const struct native_batch *b, size_t event)
{
	struct element e = b->events[event];

	if (!element_is_aside(&e)) {
		e.torn = e.kind == ELEM_RANGE && a->next != NATIVE_UNKNOWN && a->next != e.range.start;
		a->next = e.kind == ELEM_RANGE ? b->successors[event] : NATIVE_UNKNOWN;
	}
	return autofdo_element(&a->output, &e);
}

static int autofdo_batch(struct output *o, const struct native_batch *b)
{
	struct autofdo_output *a = (struct autofdo_output *)o;
	size_t event = 0;
	int rc = 0;

	for (size_t i = 0; i < b->n && rc == 0; i++) {
		uint32_t edge = b->edges[i];

		if (!(edge & NATIVE_CYCLES))
			rc = on_edge(a, &b->blocks[edge_block(edge)], edge_is_taken(edge));
		else if (edge == NATIVE_EVENT)
			rc = on_event(a, b, event++);
	}
	return rc;
}

static int autofdo_piece(struct output *o, const struct pd_piece *p)
{
	struct autofdo_output *a = (struct autofdo_output *)o;

	settle_last(a);
	a->next = NATIVE_UNKNOWN;
	return 0;
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
					       .batch = autofdo_batch };
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
