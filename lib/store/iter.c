/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/store/reader.h"

enum { SLOW_CALLS_MIN = 10 };

struct store_iter {
	const struct store *store;
	const struct stored_thread *thread;
	uint64_t next_block; /* index within the thread */
	struct reader r;     /* the rest of the current block */
	uint8_t *data;
	size_t capacity;
	uint64_t time, instructions, bound;
	uint64_t waited;        /* ns in pauses up to time, without the pause that is open on top of the stack */
	uint64_t segments;      /* begun so far */
	uint32_t roots;         /* roots of the current segment returned to so far */
	uint32_t pending_roots; /* roots of the current segment whose enters are still to be returned */
	uint32_t uncertain;     /* number of MARK_WAS_UNCERTAIN still to come up to which the stack is uncertain */
	bool pending_mark;      /* the segment's mark as uncertain is still to be returned, after the roots */
	bool marked;            /* the last mark was MARK_UNCERTAIN */
	bool again;             /* the next frame, which is no root, is the one that a stack was left in before */
	uint64_t move_leaves, move_enters; /* rest of the current move */
	enum call_kind move_kind;          /* of those entered */
	struct store_frame *stack;
	size_t depth, cap_stack;
	const uint8_t *wanted;  /* by function; NULL: all are wanted */
	struct store_event gap; /* in which the time sought last lies; until 0: in none */
};

int store_iter_new(const struct store *s, size_t thread, struct store_iter **ret)
{
	struct store_iter *it;

	if (thread >= s->n_threads)
		return -EINVAL;
	it = calloc(1, sizeof(*it));
	if (!it)
		return -ENOMEM;
	it->store = s;
	it->thread = &s->threads[thread];
	*ret = it;
	return 0;
}

struct store_iter *store_iter_free(struct store_iter *it)
{
	if (!it)
		return NULL;
	free(it->data);
	free(it->stack);
	free(it);
	return NULL;
}

bool store_is_slow(const struct store_function *f, uint64_t ns, uint64_t bound)
{
	uint64_t sure = ns - MIN(ns, bound), usual;

	if (f->whole < SLOW_CALLS_MIN || store_is_wait(f->kind) || sure / 4 <= f->median_ns)
		return false;
	/* The 99th percentile is accurate to 4 %. */
	if (sure < f->p99_ns - f->p99_ns / 25)
		return false;
	/* How many calls can be as long: what is left of the total beyond the usual. */
	usual = f->whole > UINT64_MAX / MAX(f->median_ns, UINT64_C(1)) ? UINT64_MAX : f->whole * f->median_ns;
	return (f->total_ns - MIN(f->total_ns, usual)) / sure <= f->whole / 20 + 1;
}

bool store_is_whole(const struct store_event *leave)
{
	return leave->frame.kind != CALL_INFERRED && !calls_kind_is_resumed(leave->frame.kind) &&
	       leave->kind != LEAVE_GAP && leave->kind != LEAVE_END && leave->kind != LEAVE_SWITCH;
}

uint64_t store_iter_waited(const struct store_iter *it, uint64_t time)
{
	const struct store_frame *top = it->depth ? &it->stack[it->depth - 1] : NULL;
	bool waits = top && store_is_wait(it->store->functions[top->function].kind);

	return it->waited + (waits ? time - MIN(time, top->enter) : 0);
}

bool store_iter_gap(const struct store_iter *it, struct store_event *ret)
{
	*ret = it->gap;
	return it->gap.until > 0;
}

size_t store_iter_stack(const struct store_iter *it, const struct store_frame **ret)
{
	*ret = it->stack;
	return it->depth;
}

size_t store_iter_place(const struct store_iter *it)
{
	size_t depth = it->depth;

	while (depth && it->stack[depth - 1].site != STORE_NO_SITE)
		depth--;
	return depth;
}

static const struct stored_segment *segment_of(const struct store_iter *it)
{
	return it->segments ? &it->store->segments[it->thread->first_segment + it->segments - 1] : NULL;
}

/* Sets function and site of a frame from a number of either. */
static inline int frame_set_number(const struct store *s, uint64_t number, bool inlined, struct store_frame *f)
{
	if (number >= (inlined ? s->n_sites : s->n_functions))
		return -EBADMSG;
	f->site = inlined ? (uint32_t)number : STORE_NO_SITE;
	f->function = f->clone = inlined ? s->sites[number].function : (uint32_t)number;
	if (s->merged) {
		f->piece = s->merged[f->function].piece;
		f->function = s->merged[f->function].function;
	}
	return 0;
}

/* Sets function, site and kind from a packed frame. */
static inline int frame_unpack(const struct store *s, uint64_t packed, struct store_frame *f)
{
	bool inlined;
	uint64_t number = store_unpack(s->layout, packed, &inlined, &f->kind);

	if (inlined && f->kind == CALL_PLAIN)
		f->kind = CALL_INLINED;
	return frame_set_number(s, number, inlined, f);
}

static inline int frame_push(struct store_iter *it, const struct store_frame *frame)
{
	int rc = it->depth < STORE_DEPTH_MAX ? array_reserve(it->stack, it->depth, &it->cap_stack) : -EBADMSG;

	if (rc < 0)
		return rc;
	it->stack[it->depth] = *frame;
	if (frame->piece)
		it->stack[it->depth].piece = it->depth && it->stack[it->depth - 1].function == frame->function &&
					     it->stack[it->depth - 1].clone != frame->clone;
	it->depth++;
	return 0;
}

/* Pushes a root of the current segment; index counts from the innermost. */
static int frame_push_root(struct store_iter *it, uint32_t index)
{
	const struct stored_segment *g = segment_of(it);
	struct store_frame f = {
		.kind = CALL_INFERRED, .enter = g->time, .instructions = g->instructions, .waited = g->waited
	};
	uint32_t root = it->store->roots[g->first_root + index];
	int rc = frame_set_number(it->store, root & ~ROOT_INLINED, root & ROOT_INLINED, &f);

	return rc < 0 ? rc : frame_push(it, &f);
}

/* Returns the number of roots at the bottom of the stack that have not been returned to yet. */
static uint32_t roots_below(const struct store_iter *it)
{
	const struct stored_segment *g = segment_of(it);

	return g ? g->n_roots - it->roots : 0;
}

/* Reads a time in which the thread did not run: 0 if the version does not record it. */
static int read_waited(struct store_iter *it, uint64_t *ret)
{
	*ret = 0;
	return it->store->layout->waits ? rd_varint(&it->r, ret) : 0;
}

static int read_stack(struct store_iter *it)
{
	uint64_t depth, packed, ago, before, waited;
	int rc = 0;

	if (rd_varint(&it->r, &it->instructions) < 0 || read_waited(it, &it->waited) < 0 ||
	    rd_varint(&it->r, &depth) < 0)
		return -EBADMSG;
	it->depth = 0;
	for (uint32_t i = roots_below(it); rc == 0 && i-- > 0;)
		rc = frame_push_root(it, it->roots + i);
	while (rc == 0 && depth--) {
		struct store_frame f;

		if (rd_varint(&it->r, &packed) < 0 || rd_varint(&it->r, &ago) < 0 || rd_varint(&it->r, &before) < 0 ||
		    read_waited(it, &waited) < 0 || ago > it->time || before > it->instructions || waited > it->waited)
			return -EBADMSG;
		f = (struct store_frame){ .enter = it->time - ago,
					  .instructions = it->instructions - before,
					  .waited = it->waited - waited };
		rc = frame_unpack(it->store, packed, &f);
		if (rc == 0)
			rc = frame_push(it, &f);
	}
	return rc;
}

static int reserve_data(struct store_iter *it, size_t size)
{
	uint8_t *data = size > it->capacity ? realloc(it->data, size) : it->data;

	if (size > it->capacity && !data)
		return -ENOMEM;
	it->data = data;
	it->capacity = MAX(it->capacity, size);
	return 0;
}

static int load_block(struct store_iter *it, uint64_t index)
{
	const struct stored_block *b = &it->store->blocks[it->thread->first_block + index];
	int rc = reserve_data(it, b->size);

	if (rc == 0)
		rc = store_read_checked(it->store, b->offset, it->data, b->size, b->checksum);
	if (rc < 0)
		return rc;
	it->r = reader_of(it->data, b->size);
	it->next_block = index + 1;
	it->time = b->first;
	it->bound = b->bound;
	it->segments = b->segments;
	it->roots = b->roots;
	it->pending_roots = 0;
	it->move_leaves = it->move_enters = 0;
	if (segment_of(it) ? it->roots > segment_of(it)->n_roots : it->roots)
		return -EBADMSG;
	return read_stack(it);
}

/* Events of unwanted functions are not returned, except those of outermost frames: they show the progress. */
static inline bool is_emitted(const struct store_iter *it, uint32_t function)
{
	return !it->wanted || it->wanted[function] || it->depth == 1;
}

/* Enters a frame whose function, site and kind are set. */
static inline int enter_frame(struct store_iter *it, struct store_frame *f, struct store_event *ret)
{
	int rc;

	f->enter = it->time;
	f->instructions = it->instructions;
	f->waited = it->waited;
	rc = frame_push(it, f);
	if (rc < 0 || !is_emitted(it, f->function))
		return rc;
	ret->type = STORE_ENTER;
	ret->kind = f->kind;
	ret->frame = it->stack[it->depth - 1];
	ret->depth = (uint32_t)it->depth - 1;
	ret->again = it->again;
	it->again = false;
	return 1;
}

static inline int decode_enter(struct store_iter *it, uint64_t packed, struct store_event *ret)
{
	struct store_frame f = { 0 };
	int rc = frame_unpack(it->store, packed, &f);

	return rc < 0 ? rc : enter_frame(it, &f, ret);
}

static inline int decode_call(struct store_iter *it, uint64_t function, struct store_event *ret)
{
	struct store_frame f = { .kind = CALL_PLAIN };
	int rc = frame_set_number(it->store, function, false, &f);

	return rc < 0 ? rc : enter_frame(it, &f, ret);
}

static inline int decode_leave(struct store_iter *it, uint64_t kind, struct store_event *ret)
{
	if (it->depth <= roots_below(it) || kind > UINT8_MAX)
		return -EBADMSG;
	it->waited = store_iter_waited(it, it->time);
	if (!is_emitted(it, it->stack[it->depth - 1].function)) {
		it->depth--;
		return 0;
	}
	ret->type = STORE_LEAVE;
	ret->kind = (uint8_t)kind;
	ret->frame = it->stack[--it->depth];
	ret->depth = (uint32_t)it->depth;
	return 1;
}

static int decode_gap(struct store_iter *it, uint64_t kind, struct store_event *ret)
{
	if (it->depth || kind > UINT8_MAX)
		return -EBADMSG;
	ret->type = STORE_GAP;
	ret->kind = (uint8_t)kind;
	ret->depth = 0;
	ret->until = it->time;
	if (it->segments < it->thread->n_segments)
		ret->until = MAX(it->time, it->store->segments[it->thread->first_segment + it->segments].time);
	else if (it->next_block == it->thread->n_blocks && !rd_left(&it->r))
		ret->until = MAX(it->time, it->thread->shown.last);
	return 1;
}

static int return_mark(const struct store_iter *it, enum mark_kind kind, struct store_event *ret)
{
	ret->type = STORE_MARK;
	ret->kind = (uint8_t)kind;
	ret->depth = (uint32_t)it->depth;
	return 1;
}

/* While the stack is uncertain from the beginning of the segment, other marks of the stack are not returned. */
static int decode_mark(struct store_iter *it, uint64_t kind, struct store_event *ret)
{
	if (kind >= MARK_KINDS)
		return -EBADMSG;
	if (kind > MARK_WAS_UNCERTAIN)
		return return_mark(it, (enum mark_kind)kind, ret);
	if (kind == MARK_WAS_UNCERTAIN)
		return it->uncertain && !--it->uncertain && !it->marked ? return_mark(it, MARK_CERTAIN, ret) : 0;
	it->marked = kind == MARK_UNCERTAIN;
	return it->uncertain ? 0 : return_mark(it, (enum mark_kind)kind, ret);
}

/* Returns the mark of a segment whose stack is uncertain from the beginning. */
static int emit_mark(struct store_iter *it, struct store_event *ret)
{
	it->pending_mark = false;
	*ret = (struct store_event){ .time = it->time, .instructions = it->instructions };
	return return_mark(it, MARK_UNCERTAIN, ret);
}

static int begin_segment(struct store_iter *it)
{
	if (it->depth || it->segments >= it->thread->n_segments)
		return -EBADMSG;
	it->segments++;
	it->roots = 0;
	it->pending_roots = roots_below(it);
	it->uncertain = segment_of(it)->uncertain;
	it->pending_mark = it->uncertain && !it->marked;
	it->again = segment_of(it)->flags & SEGMENT_IS_AGAIN;
	/* Roots are entered at the segment's time; it must be equal so that times never decrease. */
	return segment_of(it)->time == it->time && segment_of(it)->instructions == it->instructions &&
		       segment_of(it)->waited == it->waited
		   ? 0
		   : -EBADMSG;
}

static int confirm_root(struct store_iter *it, uint64_t value)
{
	const struct store_frame *f = it->depth ? &it->stack[it->depth - 1] : NULL;
	struct store_frame root;

	if (!f || !roots_below(it) || it->depth != roots_below(it) ||
	    frame_set_number(it->store, value >> 1, value & 1, &root) < 0 || f->function != root.function ||
	    f->site != root.site)
		return -EBADMSG;
	it->roots++;
	return 0;
}

static inline int read_event(struct reader *r, struct written_event *ret)
{
	uint64_t head;

	if (rd_varint(r, &head) < 0 || rd_varint(r, &ret->instructions) < 0)
		return -EBADMSG;
	ret->code = head & ((1 << CODE_BITS) - 1);
	ret->time = head >> CODE_BITS;
	ret->value = 0;
	return ret->code != CODE_RETURN && ret->code != CODE_SEGMENT ? rd_varint(r, &ret->value) : 0;
}

int store_read_event(struct reader *r, struct written_event *ret)
{
	return read_event(r, ret);
}

/* Decodes one event. Returns 1 if it is to be returned, else 0. */
static int decode(struct store_iter *it, struct store_event *ret)
{
	struct written_event e;

	if (read_event(&it->r, &e) < 0 || __builtin_add_overflow(it->time, e.time, &it->time) ||
	    __builtin_add_overflow(it->instructions, e.instructions, &it->instructions))
		return -EBADMSG;
	ret->time = it->time;
	ret->instructions = it->instructions;
	switch (e.code) {
	case CODE_CALL:
		return decode_call(it, e.value, ret);
	case CODE_ENTER:
		return decode_enter(it, e.value, ret);
	case CODE_RETURN:
		return decode_leave(it, LEAVE_RETURN, ret);
	case CODE_LEAVE:
		return decode_leave(it, e.value, ret);
	case CODE_NOTE:
		return e.value & 1 ? decode_mark(it, e.value >> 1, ret) : decode_gap(it, e.value >> 1, ret);
	case CODE_MOVE:
		it->move_leaves = e.value >> it->store->layout->move_shift;
		it->move_kind = it->store->layout->resumed && e.value & MOVE_RESUMED ? CALL_RESUMED : CALL_INLINED;
		it->move_enters = e.value & MOVE_MAX;
		return 0;
	case CODE_SEGMENT:
		return begin_segment(it);
	case CODE_ROOT:
		return confirm_root(it, e.value);
	default:
		return -EBADMSG;
	}
}

/* Decodes the next step of a move; returns as decode(). */
static int decode_move(struct store_iter *it, struct store_event *ret)
{
	struct store_frame f = { .kind = (uint8_t)it->move_kind };
	uint64_t site;
	int rc;

	ret->time = it->time;
	ret->instructions = it->instructions;
	if (it->move_leaves) {
		it->move_leaves--;
		return decode_leave(it, LEAVE_RETURN, ret);
	}
	it->move_enters--;
	rc = rd_varint(&it->r, &site);
	if (rc == 0)
		rc = frame_set_number(it->store, site, true, &f);
	return rc < 0 ? -EBADMSG : enter_frame(it, &f, ret);
}

static int emit_root(struct store_iter *it, struct store_event *ret)
{
	int rc = frame_push_root(it, --it->pending_roots);

	if (rc < 0)
		return rc;
	*ret = (struct store_event){ .type = STORE_ENTER,
				     .kind = CALL_INFERRED,
				     .time = it->time,
				     .instructions = it->instructions,
				     .depth = (uint32_t)it->depth - 1,
				     .frame = it->stack[it->depth - 1] };
	return 1;
}

void store_iter_filter(struct store_iter *it, const uint8_t *wanted)
{
	it->wanted = wanted;
}

/* Returns 1 if a wanted function is left in this block, else 0. */
static int block_is_wanted(struct store_iter *it, uint64_t index)
{
	const struct stored_block *b = &it->store->blocks[it->thread->first_block + index];
	uint64_t function = 0, step;
	struct reader r;
	int rc;

	rc = reserve_data(it, b->leaves_size);
	if (rc == 0)
		rc = store_read_checked(it->store, b->offset + b->size, it->data, b->leaves_size, b->leaves_checksum);
	if (rc < 0)
		return rc;
	r = reader_of(it->data, b->leaves_size);
	while (rd_left(&r)) {
		if (rd_varint(&r, &step) < 0 || step >= it->store->n_functions - function)
			return -EBADMSG;
		function += step;
		if (it->wanted[it->store->merged ? it->store->merged[function].function : function])
			return 1;
	}
	return 0;
}

/* Advances next_block to a block that is wanted, or to the end; *ret_passed: blocks were skipped. */
static int skip_unwanted_blocks(struct store_iter *it, bool *ret_passed)
{
	uint64_t from = it->next_block;
	int rc = 0;

	while (it->wanted && rc == 0 && it->next_block < it->thread->n_blocks) {
		rc = block_is_wanted(it, it->next_block);
		it->next_block += rc == 0;
	}
	*ret_passed = it->next_block != from;
	return MIN(rc, 0);
}

int store_iter_next(struct store_iter *it, struct store_event *ret)
{
	int rc = 0;

	while (rc == 0) {
		if (it->pending_roots) {
			rc = emit_root(it, ret);
		} else if (it->pending_mark) {
			rc = emit_mark(it, ret);
		} else if (it->move_leaves || it->move_enters) {
			rc = decode_move(it, ret);
		} else if (rd_left(&it->r)) {
			rc = decode(it, ret);
		} else if (it->next_block < it->thread->n_blocks) {
			size_t depth = it->depth;
			bool passed;

			rc = skip_unwanted_blocks(it, &passed);
			if (rc < 0 || it->next_block == it->thread->n_blocks)
				return rc;
			rc = load_block(it, it->next_block);
			it->uncertain = passed ? 0 : it->uncertain;
			/*
			 * A block must begin where the one before ended: callers hold the frames of the events returned
			 * so far.
			 */
			if (rc == 0 && it->depth != depth && !passed)
				rc = -EBADMSG;
		} else {
			return it->depth ? -EBADMSG : 0;
		}
	}
	ret->bound = it->bound;
	return rc;
}

int store_iter_seek(struct store_iter *it, uint64_t time)
{
	const struct stored_block *blocks = it->store->blocks + it->thread->first_block;
	uint64_t low = 0, high = it->thread->n_blocks;
	struct store_event e;
	int rc;

	/* Find the first block that ends at or after time. */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (blocks[middle].last < time)
			low = middle + 1;
		else
			high = middle;
	}
	/* Where a block begins later, the one before may end with a gap. */
	if (low < it->thread->n_blocks && low && blocks[low].first > time)
		low--;
	it->next_block = low;
	it->gap.until = 0;
	it->r = reader_of(NULL, 0);
	it->depth = it->pending_roots = 0;
	it->move_leaves = it->move_enters = 0;
	it->marked = it->again = false;
	if (low == it->thread->n_blocks)
		return 0;
	rc = load_block(it, low);
	while (rc == 0 && (rd_left(&it->r) || it->move_leaves || it->pending_roots)) {
		struct reader ahead = it->r;
		bool moving = it->move_leaves || it->move_enters;
		uint64_t head;

		/* Look at the head of the next event without consuming it. */
		if (!it->pending_roots && !moving && rd_varint(&ahead, &head) == 0 &&
		    head >> CODE_BITS >= time - MIN(time, it->time))
			break;
		rc = it->pending_roots ? emit_root(it, &e) : moving ? decode_move(it, &e) : decode(it, &e);
		if (rc == 1)
			it->gap = e.type == STORE_GAP && e.until > time ? e : (struct store_event){ .until = 0 };
		if (rc == 1)
			rc = 0;
	}
	/* Like other marks, a mark from before the position is not returned. */
	it->pending_mark = false;
	it->uncertain = 0;
	return rc;
}
