/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/store/writer.h"

enum {
	ROOTS_MAX = 1 << 20,
	SEGMENT_ROOTS_MAX = STORE_DEPTH_MAX / 2 - 1024, /* leaves readers room for the frames of lib/calls above them */
	SEGMENTS_MAX = 2 << 20,
	SPLITS_MAX = 4096,
	EVENT_MAX = 4096, /* bytes of one event at most; a move with 255 enters needs the most */
};

static void add_meta(struct store_writer *w, const char *key, const char *value)
{
	chunk_put_text(&w->meta, key);
	chunk_put_text(&w->meta, value);
}

static void add_meta_number(struct store_writer *w, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ju", (uintmax_t)value);
	add_meta(w, key, text);
}

static void add_trigger(struct store_writer *w, const struct store_trigger *t)
{
	add_meta(w, "trigger", t->condition);
	if (t->function)
		add_meta(w, "trigger_function", t->function);
	if (t->tid)
		add_meta_number(w, "trigger_thread", t->tid);
	if (t->time)
		add_meta_number(w, "trigger_time", t->time);
	if (t->timed)
		add_meta_number(w, "trigger_value", t->value);
}

void store_set_ending(struct store_writer *w, const char *text, uint32_t tid)
{
	add_meta(w, "ended", text);
	if (tid)
		add_meta_number(w, "ended_thread", tid);
}

void store_set_process(struct store_writer *w, const struct store_process *p)
{
	add_meta_number(w, "process", p->pid);
	add_meta_number(w, "process_thread", p->first_thread);
	add_meta(w, "process_program", p->program);
}

int store_create(int fd, const struct store_meta *meta, struct store_writer **ret)
{
	_cleanup_(store_writer_freep) struct store_writer *w = calloc(1, sizeof(*w));
	uint32_t empty;
	int rc;

	if (!w)
		return -ENOMEM;
	w->fd = fd;
	w->mark_function = UINT32_MAX;
	w->strings.bytes.limit = UINT32_MAX / 2;
	add_meta_number(w, "pid", meta->pid);
	add_meta(w, "program", meta->program ? meta->program : "");
	add_meta(w, "source", meta->source ? meta->source : "");
	if (meta->id)
		add_meta(w, "id", meta->id);
	if (meta->clock)
		add_meta(w, "clock", meta->clock);
	if (meta->realtime)
		add_meta_number(w, "realtime", meta->realtime);
	if (meta->monotonic)
		add_meta_number(w, "monotonic", meta->monotonic);
	if (meta->unrecorded)
		add_meta_number(w, "unrecorded", meta->unrecorded);
	if (meta->window)
		add_meta_number(w, "window", meta->window);
	if (meta->waits_unknown)
		add_meta(w, "waits", "unknown");
	if (meta->trigger.condition)
		add_trigger(w, &meta->trigger);
	/* The empty string has offset 0. */
	rc = texts_find(&w->strings, "", &empty);
	if (rc == 0)
		rc = store_write_header(fd, &(struct store_header){ .version = STORE_VERSION });
	w->offset = STORE_HEADER_SIZE;
	if (rc == 0)
		rc = chunk_append(w, CHUNK_DESCRIPTION, &w->meta, 0, NULL, NULL);
	if (rc < 0)
		return rc;
	*ret = TAKE_PTR(w);
	return 0;
}

static void thread_release(struct writer_thread *t)
{
	free(t->stack);
	t->stack = NULL;
	free(t->uses);
	t->uses = NULL;
	cut_calls_done(&t->cut_calls);
	buf_done(&t->block);
	buf_done(&t->leaves);
}

struct store_writer *store_writer_free(struct store_writer *w)
{
	if (!w)
		return NULL;
	for (size_t i = 0; i < w->n_threads; i++) {
		thread_release(w->threads[i]);
		buf_done(&w->threads[i]->blocks);
		free(w->threads[i]->segments);
		free(w->threads[i]->roots);
		free(w->threads[i]);
	}
	free(w->threads);
	for (size_t i = 0; i < w->n_functions; i++)
		histogram_done(&w->functions[i].times);
	free(w->functions);
	free(w->sites);
	free(w->sought);
	free(w->notes);
	hash_done(&w->regions);
	hash_done(&w->inlined_functions);
	hash_done(&w->file_functions);
	texts_done(&w->files);
	hash_done(&w->inlined_instances);
	hash_done(&w->site_places);
	buf_done(&w->meta);
	texts_done(&w->strings);
	free(w);
	return NULL;
}

int store_thread_add(struct store_writer *w, uint32_t tid, const char *name, uint32_t *ret_thread)
{
	int rc = array_reserve(w->threads, w->n_threads, &w->cap_threads);
	struct writer_thread *t;

	if (rc < 0)
		return rc;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->index = (uint32_t)w->n_threads;
	t->tid = tid;
	rc = texts_find(&w->strings, name ? name : "", &t->name);
	if (rc < 0) {
		free(t);
		return rc;
	}
	*ret_thread = (uint32_t)w->n_threads;
	w->threads[w->n_threads++] = t;
	return 0;
}

static uint64_t frame_pack(const struct writer_frame *f)
{
	uint64_t kind = f->kind == CALL_INLINED ? CALL_PLAIN : f->kind;

	return f->site == NO_SITE ? (uint64_t)f->function << FRAME_BITS | kind
				  : (uint64_t)f->site << FRAME_BITS | FRAME_INLINED | kind;
}

_apart_ static int begin_block(struct writer_thread *t, const struct call_event *e)
{
	struct buf *b = &t->block;

	buf_clear(b);
	buf_clear(&t->leaves);
	if (!t->block_number++)
		t->first = e->time;
	t->block_time = t->time = e->time;
	t->instructions = e->instructions;
	t->block_slices = t->block_bound = 0;
	t->block_segments = t->n_segments;
	t->block_roots = t->n_segments ? t->segments[t->n_segments - 1].n_roots : 0;
	buf_varint(b, e->instructions);
	buf_varint(b, t->waited);
	buf_varint(b, t->depth);
	for (size_t i = 0; i < t->depth; i++) {
		const struct writer_frame *f = &t->stack[i];

		buf_varint(b, frame_pack(f));
		buf_varint(b, e->time - f->enter);
		buf_varint(b, e->instructions - f->instructions);
		buf_varint(b, t->waited - f->waited);
	}
	/* Deep stacks make longer blocks, so that initial stacks remain the smaller part of the file. */
	t->block_limit = MAX((size_t)BLOCK_BYTES, 4 * b->size);
	return buf_error(b);
}

static int compare_functions(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

/* Appends the list of functions left in the block; returns its size. */
static uint32_t add_leaves(struct writer_thread *t)
{
	uint32_t *list = (uint32_t *)t->leaves.data, last = 0;
	size_t n = t->leaves.size / sizeof(*list), size = t->block.size;

	if (n)
		qsort(list, n, sizeof(*list), compare_functions);
	for (size_t i = 0; i < n; i++) {
		buf_varint(&t->block, list[i] - last);
		last = list[i];
	}
	return (uint32_t)(t->block.size - size);
}

_apart_ static int end_block(struct store_writer *w, struct writer_thread *t)
{
	uint32_t size = (uint32_t)t->block.size, leaves = add_leaves(t);
	struct buf *b = &t->blocks;
	struct chunk_sums sums;
	uint64_t at;
	int rc = buf_error(&t->block) ? buf_error(&t->block) : buf_error(&t->leaves);

	if (rc < 0 || !t->block_events)
		return rc;
	rc = chunk_append_names(w);
	if (rc < 0)
		return rc;
	at = w->offset + CHUNK_HEAD_SIZE;
	rc = chunk_append(w, CHUNK_BLOCK, &t->block, leaves, t, &sums);
	buf_u64(b, at);
	buf_u32(b, size);
	buf_u32(b, t->block_events);
	buf_u64(b, t->block_time);
	buf_u64(b, t->time);
	buf_u64(b, t->block_slices);
	buf_u64(b, t->block_bound);
	buf_u64(b, t->block_segments);
	buf_u32(b, t->block_roots);
	buf_u32(b, leaves);
	buf_u32(b, sums.events);
	buf_u32(b, sums.leaves);
	t->events += t->block_events;
	t->slices += t->block_slices;
	t->bound = MAX(t->bound, t->block_bound);
	t->block_events = 0;
	return rc < 0 ? rc : buf_error(b);
}

_apart_ static int uses_grow(struct store_writer *w, struct writer_thread *t)
{
	size_t n = w->cap_functions;
	struct writer_use *uses = realloc(t->uses, n * sizeof(*uses));

	if (!uses)
		return -ENOMEM;
	memset(uses + t->n_uses, 0, (n - t->n_uses) * sizeof(*uses));
	t->uses = uses;
	t->n_uses = n;
	return 0;
}

static void add_longest(struct writer_function *f, const struct writer_thread *t, uint64_t ns, uint64_t enter)
{
	if (ns < f->longest_ns)
		return;
	f->longest_ns = ns;
	f->longest_enter = enter;
	f->longest_thread = t->index;
}

static int add_whole(struct writer_function *f, uint64_t ns)
{
	f->shortest_ns = f->times.n ? MIN(f->shortest_ns, ns) : ns;
	return histogram_add(&f->times, ns);
}

/* Adds the last call of an inlined function to the totals; no more pieces of it follow. */
static int end_inlined_call(struct writer_function *f, const struct writer_thread *t, struct writer_use *u)
{
	if (!u->called)
		return 0;
	u->called = false;
	add_longest(f, t, u->call_ns, u->call_enter);
	return u->whole ? add_whole(f, u->call_ns) : 0;
}

static inline struct writer_use *use_of(struct store_writer *w, struct writer_thread *t, uint32_t function)
{
	struct writer_use *u;

	if (function >= t->n_uses && uses_grow(w, t) < 0)
		return NULL;
	u = &t->uses[function];
	if (u->segment != (uint32_t)t->n_segments) {
		if (end_inlined_call(&w->functions[function], t, u) < 0)
			return NULL;
		u->segment = (uint32_t)t->n_segments;
		u->ns = u->wait_ns = u->instructions = 0;
	}
	return u;
}

static inline int frame_push(struct store_writer *w, struct writer_thread *t, const struct writer_frame *frame)
{
	int rc = array_reserve(t->stack, t->depth, &t->cap_stack);
	struct writer_use *u = use_of(w, t, frame->function);

	if (rc < 0 || !u)
		return -ENOMEM;
	if (t->depth >= STORE_DEPTH_MAX)
		return -EINVAL;
	if (frame->root)
		cut_calls_leave(&t->cut_calls);
	w->functions[frame->function].calls +=
	    cut_calls_enter(&t->cut_calls, frame->function, frame->kind, t->again && !t->depth);
	w->functions[frame->function].resumed += frame->kind == CALL_RESUMED && frame->site != NO_SITE;
	t->again = false;
	u->active++;
	t->stack[t->depth] = *frame;
	if (!frame->root)
		t->stack[t->depth].waited = t->waited;
	t->depth++;
	t->deepest = MAX(t->deepest, (uint32_t)t->depth);
	t->block_slices++;
	return 0;
}

/* Returns true if the end of a call, or of a piece of it, was traced. */
static inline bool is_left(enum leave_kind kind)
{
	return kind != LEAVE_GAP && kind != LEAVE_END && kind != LEAVE_SWITCH;
}

/* Returns true if the call was traced from enter to leave. */
static inline bool is_whole(const struct writer_frame *f, enum leave_kind kind)
{
	return f->kind != CALL_INFERRED && !calls_kind_is_resumed(f->kind) && is_left(kind);
}

/* Adds the duration of a piece of an inlined function's call: the first piece, or a later one, which is resumed. */
static inline int add_piece(struct writer_function *f, const struct writer_thread *t, struct writer_use *u,
			    const struct writer_frame *frame, uint64_t ns, enum leave_kind kind)
{
	int rc;

	if (frame->kind == CALL_RESUMED && u->called) {
		u->call_ns += ns;
		u->whole = u->whole && is_left(kind);
		return 0;
	}
	rc = end_inlined_call(f, t, u);
	u->called = true;
	u->whole = is_whole(frame, kind);
	u->call_ns = ns;
	u->call_enter = frame->enter;
	return rc;
}

static inline int frame_pop(struct store_writer *w, struct writer_thread *t, const struct call_event *e,
			    enum leave_kind kind)
{
	const struct writer_frame *f;
	struct writer_function *total;
	uint64_t ns, instructions, wait;
	struct writer_use *u;
	int rc = 0;

	if (!t->depth)
		return -EINVAL;
	cut_calls_leave(&t->cut_calls);
	f = &t->stack[--t->depth];
	total = &w->functions[f->function];
	u = use_of(w, t, f->function);
	if (!u)
		return -ENOMEM;
	if (u->last_block != t->block_number) {
		u->last_block = t->block_number;
		buf_add(&t->leaves, &f->function, sizeof(f->function));
	}
	if (kind == LEAVE_GAP)
		rc = cut_calls_add(&t->cut_calls, t->depth, f->function);
	if (rc < 0)
		return rc;
	ns = e->time - f->enter;
	instructions = e->instructions - f->instructions;
	t->waited += store_is_wait(total->kind) ? ns : 0;
	if (f->function == w->mark_function)
		store_notes_mark(w, t, f->enter, instructions);
	wait = t->waited - f->waited;
	if (f->site != NO_SITE) {
		rc = add_piece(total, t, u, f, ns, kind);
	} else {
		add_longest(total, t, ns, f->enter);
		rc = is_whole(f, kind) ? add_whole(total, ns) : 0;
	}
	if (--u->active)
		return rc;
	/* A root was open for the whole segment, so calls of its function since then were within it. */
	if (f->root) {
		ns -= MIN(u->ns, ns);
		wait -= MIN(u->wait_ns, wait);
		instructions -= MIN(u->instructions, instructions);
	}
	total->total_ns += ns;
	total->wait_ns += wait;
	total->total_instructions += instructions;
	u->ns += ns;
	u->wait_ns += wait;
	u->instructions += instructions;
	return rc;
}

/* Begins an event in the block, which has EVENT_MAX bytes reserved. */
static inline uint8_t *begin_event(struct writer_thread *t, const struct call_event *e, enum store_code code)
{
	uint8_t *to = t->block.data + t->block.size;

	to = buf_put_varint(to, (e->time - t->time) << CODE_BITS | code);
	to = buf_put_varint(to, e->instructions - t->instructions);
	t->time = e->time;
	t->instructions = e->instructions;
	return to;
}

static inline void end_event(struct writer_thread *t, const uint8_t *end)
{
	t->block.size = (size_t)(end - t->block.data);
}

/* Adds an event without operand. */
static void put_event(struct writer_thread *t, const struct call_event *e, enum store_code code)
{
	end_event(t, begin_event(t, e, code));
}

static inline void put_event_with(struct writer_thread *t, const struct call_event *e, enum store_code code,
				  uint64_t value)
{
	end_event(t, buf_put_varint(begin_event(t, e, code), value));
}

static int write_enter(struct store_writer *w, struct writer_thread *t, const struct call_event *e)
{
	struct writer_frame f = { .kind = e->kind, .enter = e->time, .instructions = e->instructions };
	int rc = t->after_gap ? -EINVAL : numbering_frame(w, e->function, e->inlined, &f);

	if (rc < 0)
		return rc;
	if (e->kind == CALL_PLAIN) {
		put_event_with(t, e, CODE_CALL, f.function);
	} else {
		put_event_with(t, e, CODE_ENTER, frame_pack(&f));
	}
	return frame_push(w, t, &f);
}

static int write_leave(struct store_writer *w, struct writer_thread *t, const struct call_event *e)
{
	if (e->kind == LEAVE_RETURN) {
		put_event(t, e, CODE_RETURN);
	} else {
		put_event_with(t, e, CODE_LEAVE, e->kind);
	}
	return frame_pop(w, t, e, e->kind);
}

_apart_ static int write_root(struct store_writer *w, struct writer_thread *t, const struct call_event *e)
{
	struct writer_segment *s = t->n_segments ? &t->segments[t->n_segments - 1] : NULL;
	struct writer_frame f = { .kind = CALL_INFERRED, .root = true };
	int rc;

	if (!s || t->depth || t->after_gap)
		return -EINVAL;
	/* Further roots begin where they are found. */
	if (t->n_roots >= ROOTS_MAX || s->n_roots >= SEGMENT_ROOTS_MAX)
		return write_enter(w, t, e);
	rc = numbering_frame(w, e->function, e->inlined, &f);
	if (rc == 0)
		rc = array_reserve(t->roots, t->n_roots, &t->cap_roots);
	if (rc < 0)
		return rc;
	t->roots[t->n_roots++] = f.site == NO_SITE ? f.function : f.site | ROOT_INLINED;
	s->n_roots++;
	s->uncertain = s->marks;
	f.enter = s->time;
	f.instructions = s->instructions;
	f.waited = s->waited;
	put_event_with(t, e, CODE_ROOT, f.site == NO_SITE ? (uint64_t)f.function << 1 : (uint64_t)f.site << 1 | 1);
	return frame_push(w, t, &f);
}

static int write_gap(struct writer_thread *t, const struct call_event *e, enum gap_kind kind)
{
	if (t->depth)
		return -EINVAL;
	t->gaps++;
	t->after_gap = true;
	t->gap_kind = (uint8_t)(kind % STORE_GAP_KINDS);
	t->gaps_of[t->gap_kind].n++;
	put_event_with(t, e, CODE_NOTE, (uint64_t)kind << 1);
	return 0;
}

_apart_ static int begin_segment(struct writer_thread *t, const struct call_event *e)
{
	int rc = array_reserve(t->segments, t->n_segments, &t->cap_segments);

	if (rc < 0)
		return rc;
	if (t->depth)
		return -EINVAL;
	/* What preceded the segment was a gap, or nothing. */
	t->gaps_of[t->gap_kind].ns += t->gaps ? e->time - t->last : 0;
	if (t->n_segments >= SEGMENTS_MAX) {
		t->cut = true;
		return write_gap(t, e, GAP_TRUNCATED);
	}
	t->segments[t->n_segments++] = (struct writer_segment){ .time = e->time,
								.instructions = e->instructions,
								.waited = t->waited,
								.first_root = (uint32_t)t->n_roots,
								.again = e->kind == SEGMENT_AGAIN };
	t->after_gap = false;
	t->again = e->kind == SEGMENT_AGAIN;
	put_event(t, e, CODE_SEGMENT);
	return 0;
}

/* Adds a move whose entered functions are on top of the stack, as several events where one cannot hold them. */
static inline void put_move(struct writer_thread *t, const struct call_event *e)
{
	const struct writer_frame *entered = t->stack + t->depth - e->entered, *end = t->stack + t->depth;
	uint64_t left = e->left;

	if (left == 1 && entered == end)
		return put_event(t, e, CODE_RETURN);
	if (left == 0 && entered + 1 == end)
		return put_event_with(t, e, CODE_ENTER, frame_pack(entered));
	do {
		size_t n = MIN((size_t)(end - entered), (size_t)MOVE_MAX);
		uint64_t head = left << MOVE_SHIFT | (e->kind == CALL_RESUMED ? MOVE_RESUMED : 0) | n;
		uint8_t *to = buf_put_varint(begin_event(t, e, CODE_MOVE), head);

		for (; n; n--, entered++)
			to = buf_put_varint(to, entered->site);
		end_event(t, to);
		left = 0;
	} while (entered != end);
}

static inline int push_inlined(struct store_writer *w, struct writer_thread *t, const struct call_event *e,
			       const struct inlined *inlined)
{
	struct writer_frame f = { .kind = e->kind, .enter = e->time, .instructions = e->instructions };
	int rc = inlined ? numbering_frame(w, NULL, inlined, &f) : -EINVAL;

	return rc < 0 ? rc : frame_push(w, t, &f);
}

/* Pushes n functions, outermost first; `inlined` is the innermost. */
static int push_inlined_chain(struct store_writer *w, struct writer_thread *t, const struct call_event *e,
			      const struct inlined *inlined, unsigned n)
{
	int rc = n > 1 && inlined ? push_inlined_chain(w, t, e, inlined->parent, n - 1) : 0;

	return rc < 0 ? rc : push_inlined(w, t, e, inlined);
}

_apart_ static int write_move(struct store_writer *w, struct writer_thread *t, const struct call_event *e)
{
	int rc = t->after_gap ? -EINVAL : 0;

	for (unsigned i = e->left; rc == 0 && i; i--)
		rc = frame_pop(w, t, e, LEAVE_RETURN);
	if (rc == 0 && e->entered)
		rc = e->entered == 1 ? push_inlined(w, t, e, e->inlined)
				     : push_inlined_chain(w, t, e, e->inlined, e->entered);
	if (rc == 0)
		put_move(t, e);
	return rc;
}

/*
 * Returns true if an event must begin a new block: its time step does not fit beside a code, and a new block has its
 * time in full; or times begin or cease to be known, and a block has one bound. Where they do so all the time, those of
 * a block are not known.
 */
static inline bool needs_block(struct writer_thread *t, const struct call_event *e)
{
	if ((e->time - t->time) >> (64 - CODE_BITS))
		return true;
	if ((e->bound == UINT64_MAX) == (t->block_bound == UINT64_MAX) || t->splits > SPLITS_MAX + t->events / 64)
		return false;
	t->splits++;
	return true;
}

/* Attributes the time since the last event to the function on top. */
static inline void add_self(struct store_writer *w, const struct writer_thread *t, const struct call_event *e)
{
	struct writer_function *f = t->depth ? &w->functions[t->stack[t->depth - 1].function] : NULL;

	if (!f)
		return;
	f->self_ns += e->time - t->time;
	f->self_instructions += e->instructions - t->instructions;
}

int store_event(struct store_writer *w, uint32_t thread, const struct call_event *e)
{
	struct writer_thread *t = thread < w->n_threads ? w->threads[thread] : NULL;
	int rc = 0;

	if (!t || t->ended || e->time < t->time || e->instructions < t->instructions)
		return -EINVAL;
	if (t->cut) {
		t->last = e->time;
		return 0;
	}
	add_self(w, t, e);
	if (t->block_events && needs_block(t, e)) {
		rc = end_block(w, t);
		if (rc < 0)
			return rc;
	}
	if (!t->block_events) {
		rc = begin_block(t, e);
		if (rc < 0)
			return rc;
	}
	/* Grown as it fills: there may be many threads with few events. */
	if (t->block.capacity - t->block.size < EVENT_MAX && !buf_reserve(&t->block, EVENT_MAX))
		return buf_error(&t->block);
	t->block_events += e->type == CALL_EVENT_MOVE ? e->left + e->entered : 1;
	t->block_bound = MAX(t->block_bound, e->bound);
	switch (e->type) {
	case CALL_EVENT_SEGMENT:
		rc = begin_segment(t, e);
		break;
	case CALL_EVENT_ENTER:
		rc = write_enter(w, t, e);
		break;
	case CALL_EVENT_LEAVE:
		rc = write_leave(w, t, e);
		break;
	case CALL_EVENT_ROOT:
		rc = write_root(w, t, e);
		break;
	case CALL_EVENT_GAP:
		rc = write_gap(t, e, e->kind);
		break;
	case CALL_EVENT_MARK:
		if (e->kind == MARK_WAS_UNCERTAIN && t->n_segments)
			t->segments[t->n_segments - 1].marks++;
		put_event_with(t, e, CODE_NOTE, (uint64_t)e->kind << 1 | 1);
		break;
	case CALL_EVENT_MOVE:
		rc = write_move(w, t, e);
		break;
	default:
		rc = -EINVAL;
	}
	t->last = e->time;
	if (rc == 0 && t->block.size >= t->block_limit)
		rc = end_block(w, t);
	return rc;
}

static int sink_event(void *user, const struct call_event *e)
{
	struct store_thread_sink *to = user;

	return store_event(to->writer, to->thread, e);
}

struct calls_sink store_sink(struct store_thread_sink *to)
{
	return (struct calls_sink){ sink_event, to, true };
}

int store_thread_end(struct store_writer *w, uint32_t thread, const struct calls_counts *counts)
{
	struct writer_thread *t = thread < w->n_threads ? w->threads[thread] : NULL;
	int rc;

	if (!t || t->ended || t->depth)
		return -EINVAL;
	if (t->cut)
		t->gaps_of[t->gap_kind].ns += t->last - t->time;
	rc = end_block(w, t);
	for (size_t i = 0; rc == 0 && i < MIN(t->n_uses, w->n_functions); i++)
		rc = end_inlined_call(&w->functions[i], t, &t->uses[i]);
	if (counts) {
		t->instructions = counts->instructions;
		t->unexplained = counts->unexplained;
	}
	t->ended = true;
	thread_release(t);
	return rc;
}

bool store_thread_is_cut(const struct store_writer *w, uint32_t thread)
{
	return w->threads[thread]->cut;
}
