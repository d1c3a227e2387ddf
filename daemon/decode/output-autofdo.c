/*
 * Counts of what ran, as AutoFDO's create_llvm_prof takes them (--profiler=text), a block for each file:
 *
 *   N, then N lines FIRST-LAST:COUNT: instructions executed one after another, LAST being the branch that ended them
 *   N, then N lines ADDRESS:COUNT: none; they would be samples
 *   N, then N lines FROM->TO:COUNT: branches taken; TO is 0 where that is in no part of this file
 *   // build_id: 0x…
 *   // the file's path
 *
 * Numbers are hexadecimal offsets in the file; counts are decimal.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/output.h"
#include "daemon/decode/input.h"
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

/* Where a stream is. */
struct autofdo_stream {
	struct engine_context context;
	bool pending; /* a branch was taken, and where to is not told yet */
	uint32_t pending_file;
	uint64_t pending_from;
};

struct autofdo_output {
	struct output output;
	struct input *input;
	int fd;
	const struct stream *stream;
	struct autofdo_stream *places; /* of each stream */
	uint32_t n_places;
	struct autofdo_stream *at;
	struct count *slots; /* open addressing; a power of two of them, half of which are free at least */
	size_t n_slots, used;
};

static struct count *slot_of(struct autofdo_output *a, uint32_t file, enum autofdo_kind kind, uint64_t from,
			     uint64_t to)
{
	uint64_t hash = (from * 0x9e3779b97f4a7c15ull) ^ (to * 0xc2b2ae3d27d4eb4full) ^ (file * KINDS + kind);

	for (size_t i = (size_t)(hash ^ hash >> 29);; i++) {
		struct count *c = &a->slots[i & (a->n_slots - 1)];

		if (!c->n || (c->from == from && c->to == to && c->file == file && c->kind == kind))
			return c;
	}
}

static int grow(struct autofdo_output *a)
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
			*slot_of(a, old[i].file, old[i].kind, old[i].from, old[i].to) = old[i];
	free(old);
	return 0;
}

static int add(struct autofdo_output *a, uint32_t file, enum autofdo_kind kind, uint64_t from, uint64_t to)
{
	struct count *c;

	if (2 * a->used >= a->n_slots) {
		int rc = grow(a);

		if (rc < 0)
			return rc;
	}
	c = slot_of(a, file, kind, from, to);
	a->used += !c->n;
	*c = (struct count){ from, to, c->n + 1, file, kind };
	return 0;
}

static bool where(struct autofdo_output *a, uint64_t address, uint32_t *ret_file, uint64_t *ret_offset)
{
	return input_where(a->input, a->stream, &a->at->context, address, ret_file, ret_offset);
}

/* Where the branch before went; has_target: it is known. */
static int settle(struct autofdo_output *a, bool has_target, uint64_t target)
{
	uint64_t to = 0;
	uint32_t file;

	if (!a->at->pending)
		return 0;
	a->at->pending = false;
	if (!has_target || !where(a, target, &file, &to) || file != a->at->pending_file)
		to = 0;
	return add(a, a->at->pending_file, BRANCH, a->at->pending_from, to);
}

static int on_range(struct autofdo_output *a, const struct element *e)
{
	uint64_t first, last = e->range.end - e->range.last_size;
	uint32_t file;
	int rc = settle(a, !e->torn, e->range.start);

	if (rc < 0 || !e->range.count || !where(a, e->range.start, &file, &first))
		return rc;
	last = first + (last - e->range.start);
	rc = add(a, file, RANGE, first, last);
	a->at->pending = e->taken && (e->instr == INSTR_BR || e->instr == INSTR_IBR);
	a->at->pending_file = file;
	a->at->pending_from = last;
	return rc;
}

static int autofdo_element(struct output *o, const struct element *e)
{
	struct autofdo_output *a = (struct autofdo_output *)o;

	switch (e->kind) {
	case ELEM_RANGE:
		return on_range(a, e);
	case ELEM_CONTEXT:
		a->at->context.has_ctxid = e->context.has_ctxid;
		a->at->context.ctxid = e->context.ctxid;
		a->at->context.has_vmid = e->context.has_vmid;
		a->at->context.vmid = e->context.vmid;
		return 0;
	case ELEM_TIMESTAMP:
		a->at->context.has_time = true;
		a->at->context.time = e->value;
		return 0;
	case ELEM_NO_IMAGE:
		return settle(a, true, e->address);
	case ELEM_EXCEPTION:
		/* It came before what the branch led to. */
		return settle(a, e->exception.has_ret, e->exception.ret);
	case ELEM_RANGE_NOPATH:
	case ELEM_UNKNOWN_ADDRESS:
	case ELEM_TRACE_ON:
	case ELEM_NO_SYNC:
	case ELEM_END:
		return settle(a, false, 0);
	default:
		return 0;
	}
}

static int autofdo_begin(struct output *o, const struct stream *s)
{
	struct autofdo_output *a = (struct autofdo_output *)o;

	if (s->number >= a->n_places) {
		uint32_t n = MAX(2 * a->n_places, s->number + 1);
		struct autofdo_stream *places = reallocarray(a->places, n, sizeof(*places));

		if (!places)
			return -ENOMEM;
		memset(places + a->n_places, 0, (n - a->n_places) * sizeof(*places));
		a->places = places;
		a->n_places = n;
	}
	a->stream = s;
	a->at = &a->places[s->number];
	return 0;
}

static int autofdo_end(struct output *o, const struct stream *s)
{
	int rc = autofdo_begin(o, s);

	return rc < 0 ? rc : settle((struct autofdo_output *)o, false, 0);
}

static int compare(const void *left, const void *right)
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

static int flush(struct autofdo_output *a, struct buf *out)
{
	int rc = buf_error(out);

	if (rc == 0)
		rc = io_write(a->fd, out->data, out->size);
	buf_clear(out);
	return rc;
}

/* The counts of one kind from at on; *ret_next is behind them. */
static int put_kind(struct autofdo_output *a, struct buf *out, uint32_t file, enum autofdo_kind kind, size_t at,
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
			rc = flush(a, out);
	}
	*ret_next = end;
	return rc;
}

static int put_files(struct autofdo_output *a)
{
	_cleanup_buf_ struct buf out = { 0 };
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < a->used;) {
		uint32_t file = a->slots[at].file;
		const struct image_file *f = image_file(a->input->images, file);
		char id[2 * IMAGE_BUILD_ID_MAX + 1];

		rc = put_kind(a, &out, file, RANGE, at, &at);
		buf_printf(&out, "0\n");
		if (rc == 0)
			rc = put_kind(a, &out, file, BRANCH, at, &at);
		if (input_build_id(f, id))
			buf_printf(&out, "// build_id: 0x%s\n", id);
		buf_printf(&out, "// %s\n\n", esc(f->path));
	}
	return rc < 0 ? rc : flush(a, &out);
}

static int autofdo_finish(struct output *o)
{
	struct autofdo_output *a = (struct autofdo_output *)o;
	size_t n = 0;

	/* They move to the front, where they are sorted: nothing is looked up any more. */
	for (size_t i = 0; i < a->n_slots; i++)
		if (a->slots[i].n)
			a->slots[n++] = a->slots[i];
	if (n)
		qsort(a->slots, n, sizeof(*a->slots), compare);
	return put_files(a);
}

static void autofdo_free(struct output *o)
{
	struct autofdo_output *a = (struct autofdo_output *)o;

	free(a->slots);
	free(a->places);
	free(a);
}

int output_autofdo_new(struct input *input, int fd, struct output **ret)
{
	static const struct output_ops ops = { .format = DECODE_FORMAT_AUTOFDO,
					       .begin = autofdo_begin,
					       .element = autofdo_element,
					       .end = autofdo_end,
					       .finish = autofdo_finish,
					       .free = autofdo_free };
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
