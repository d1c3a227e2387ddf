/* SPDX-License-Identifier: MIT */
/*
 * Inlined functions as frames. They are not part of c->stack, where returns and jumps are looked up: each frame there
 * has its innermost inlined function, which links to those around it.
 */
#include "lib/base/util.h"
#include "lib/calls/calls-private.h"

enum {
	MEMO_BITS = 13,
	MEMO_MOVES = 5,
	MEMO_STEPS = 48,
	MEMO_TOO_LONG = MEMO_MOVES + 1, /* number of moves of a range that cannot be memoised */
};

struct memo_move {
	const struct inlined *to;
	uint32_t pos; /* instructions of the range before it */
	uint8_t left, entered;
};

/*
 * Memoised moves of a range that begins at start while control is in `from`. They hold at all times, and for every
 * range that ends in the same last interval of addresses. The first enters may still have to be cancelled against
 * leaves that precede the range.
 */
struct inlined_memo {
	uint64_t start;
	const struct region *function; /* NULL: the memo is empty */
	const struct inlined *from;
	int32_t first;           /* offset from start: begin of the first interval */
	int32_t last_start, end; /* offsets from start: begin and end of the last interval */
	uint16_t events;         /* maximum of pending events that it adds */
	uint8_t n;
	bool spans_intervals; /* the range covers more than one interval */
	struct memo_move moves[MEMO_MOVES];
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct inlined_memo) == 128, "two cache lines");

static uint32_t depth_of(const struct inlined *i)
{
	return i ? i->depth : 0;
}

static int emit_enters(struct calls *c, const struct inlined *from, const struct inlined *to, enum call_kind kind)
{
	int rc = to->parent == from ? 0 : emit_enters(c, from, to->parent, kind);

	return rc < 0 ? rc : calls_emit_inlined(c, CALL_EVENT_ENTER, kind, to);
}

/* Emits the function around root as the next root: it has been open since the segment began as well. */
static int emit_inlined_root(struct calls *c, struct calls_frame *f)
{
	f->root = f->root->parent;
	c->counts.roots++;
	return f->root ? calls_emit_inlined(c, CALL_EVENT_ROOT, CALL_INFERRED, f->root)
		       : calls_emit(c, CALL_EVENT_ROOT, CALL_INFERRED, f->function);
}

static int leave_until(struct calls *c, const struct inlined *until, enum leave_kind kind)
{
	struct calls_frame *f = calls_top(c);
	int rc = 0;

	while (rc == 0 && f->inlined != until) {
		const struct inlined *left = f->inlined;

		f->inlined = left->parent;
		rc = calls_emit_inlined(c, CALL_EVENT_LEAVE, kind, left);
		if (rc == 0 && f->root == left)
			rc = emit_inlined_root(c, f);
	}
	return rc;
}

int inlined_enter(struct calls *c, enum call_kind kind)
{
	return calls_top(c)->inlined ? emit_enters(c, NULL, calls_top(c)->inlined, kind) : 0;
}

int inlined_leave(struct calls *c, enum leave_kind kind)
{
	return leave_until(c, NULL, kind);
}

/*
 * Cancels the pending leaves of functions that are about to be entered again, from the outermost inwards, and returns
 * the innermost function resumed: compilers interleave the instructions of an inlined function with those around it,
 * which does not end its activation.
 */
static const struct inlined *resume_inlined(struct calls *c, const struct inlined *from, const struct inlined *to)
{
	while (from != to) {
		const struct inlined *next = to;

		while (next->parent != from)
			next = next->parent;
		if (!event_times_cancel_leave(&c->times, next))
			break;
		from = next;
	}
	return from;
}

/* Emits a move as single leaves and enters. */
static int emit_move_singly(struct calls *c, const struct inlined *both, const struct inlined *to, enum leave_kind kind)
{
	int rc = leave_until(c, both, kind);

	if (rc < 0 || to == both)
		return rc;
	calls_top(c)->inlined = to;
	both = resume_inlined(c, both, to);
	return both == to ? 0 : emit_enters(c, both, to, CALL_INLINED);
}

int inlined_move(struct calls *c, const struct inlined *to, enum leave_kind kind)
{
	struct calls_frame *f = calls_top(c);
	const struct inlined *from = f->inlined, *both = from, *other = to;
	uint32_t left, entered;

	/* Fast path: most moves go one level in or out. */
	if (to && to->parent == from) {
		left = 0;
		entered = 1;
	} else if (from && from->parent == to) {
		both = to;
		left = 1;
		entered = 0;
	} else {
		while (both != other) {
			if (depth_of(both) >= depth_of(other))
				both = both->parent;
			else
				other = other->parent;
		}
		left = depth_of(from) - depth_of(both);
		entered = depth_of(to) - depth_of(both);
	}
	if (kind != LEAVE_RETURN || f->root || !event_times_fit(&c->times, left, entered))
		return emit_move_singly(c, both, to, kind);
	f->inlined = to;
	if (!left && event_times_end_in_leave(&c->times))
		entered = depth_of(to) - depth_of(resume_inlined(c, both, to));
	return left || entered ? event_times_add_move(&c->times, c->counts.instructions, from, to, left, entered) : 0;
}

static struct inlined_memo *memo_at(const struct calls *c, uint64_t start, const struct inlined *from)
{
	return &c->memos[(start ^ (uintptr_t)from << 20) * 0x9e3779b97f4a7c15u >> (64 - MEMO_BITS)];
}

/* The number of instructions before an address of the range follows from the address. */
static inline bool has_fixed_size_instructions(const struct element *e)
{
	return e->range.end - e->range.start == (uint64_t)e->range.count * INSTRUCTION_SIZE;
}

/* Returns true if the memo covers the range, be it as not memoisable. */
static inline bool memo_matches(const struct inlined_memo *w, const struct element *e, const struct inlined *from,
				const struct region *function, uint64_t last)
{
	int64_t at = (int64_t)(last - w->start);

	return w->start == e->range.start && w->from == from && w->function == function && at >= w->last_start &&
	       at < w->end && (!w->spans_intervals || has_fixed_size_instructions(e));
}

/* Returns how many functions the move enters when leaves that precede it are cancelled. */
static uint32_t memo_entered(struct calls *c, const struct memo_move *m)
{
	const struct inlined *both = m->to;

	for (unsigned i = 0; i < m->entered; i++)
		both = both->parent;
	return depth_of(m->to) - depth_of(resume_inlined(c, both, m->to));
}

int inlined_replay(struct calls *c, const struct element *e, uint64_t last)
{
	struct calls_frame *f = calls_top(c);
	struct event_times *s = &c->times;
	const struct inlined *at = f->inlined;
	const struct inlined_memo *w = memo_at(c, e->range.start, at);
	int rc = 0;

	if (!memo_matches(w, e, at, f->function, last) || w->n > MEMO_MOVES || f->root ||
	    c->last_leave == LEAVE_UNWOUND || s->counted || !event_times_fit(s, w->events, 0))
		return 0;
	if (w->start + (uint64_t)w->first < c->last_start)
		event_times_commit(s);
	c->last_start = w->start + (uint64_t)w->last_start;
	c->last_leave = LEAVE_RETURN;
	for (unsigned i = 0; rc == 0 && i < w->n; i++) {
		const struct memo_move *m = &w->moves[i];
		uint32_t entered = !m->left && event_times_end_in_leave(s) ? memo_entered(c, m) : m->entered;

		if (m->left || entered)
			rc = event_times_add_move(s, c->counts.instructions + m->pos, at, m->to, m->left, entered);
		at = m->to;
	}
	f->inlined = at;
	return rc < 0 ? rc : 1;
}

/* Stores an address as an offset from the memo's start; returns false if it does not fit. */
static bool memo_offset(const struct inlined_memo *w, uint64_t address, int32_t *ret)
{
	*ret = (int32_t)(address - w->start);
	return w->start + (uint64_t)*ret == address;
}

/* Fills the memo by executing the range on a stack of one frame without history. */
static bool memo_fill(struct calls *c, const struct element *e, uint64_t last, struct inlined_memo *w)
{
	struct event_times *s = &c->times;
	uint64_t at = w->start;

	for (unsigned i = 0; i < MEMO_STEPS; i++, at = c->here.end) {
		c->counts.instructions = (at - w->start) / INSTRUCTION_SIZE;
		if (calls_set_here(c, at) < 0 || c->here.from || c->here.until != UINT64_MAX ||
		    c->here.region != w->function || w->function->kind != REGION_FUNCTION ||
		    (i && !has_fixed_size_instructions(e)) || (!i && !memo_offset(w, c->here.start, &w->first)) ||
		    (calls_top(c)->inlined != c->here.inlined && inlined_move(c, c->here.inlined, LEAVE_RETURN) < 0))
			return false;
		w->events = (uint16_t)MAX(w->events, s->events);
		w->spans_intervals = i > 0;
		if (last < c->here.end)
			return s->n <= MEMO_MOVES && memo_offset(w, c->here.start, &w->last_start) &&
			       memo_offset(w, c->here.end, &w->end);
	}
	return false;
}

/* Copies the moves, each with the innermost inlined function after it. */
static void memo_set_moves(struct inlined_memo *w, const struct event_times *s)
{
	for (w->n = 0; w->n < s->n; w->n++) {
		const struct pending_event *item = &s->items[w->n];
		struct memo_move *m = &w->moves[w->n];

		*m = (struct memo_move){ item->inlined, (uint32_t)item->pos, item->left, item->entered };
		if (m->entered)
			continue;
		m->to = item->from;
		for (unsigned i = 0; i < m->left; i++)
			m->to = m->to->parent;
	}
}

void inlined_memoise(struct calls *c, const struct element *e, uint64_t last, const struct inlined *from)
{
	struct inlined_memo *w = memo_at(c, e->range.start, from),
			    new = { .start = e->range.start, .function = calls_top(c)->function, .from = from };
	struct pending_event items[MEMO_STEPS];
	struct calls_frame frame = { .function = new.function, .inlined = from };
	struct calls alone = { .regions = c->regions, .recent = c->recent, .stack = &frame, .depth = 1 };

	if (!new.function || memo_matches(w, e, from, new.function, last))
		return;
	alone.times = (struct event_times){ .items = items, .capacity = MEMO_STEPS, .stamp = c->times.stamp };
	if (memo_fill(&alone, e, last, &new)) {
		memo_set_moves(&new, &alone.times);
	} else {
		new.n = MEMO_TOO_LONG;
		new.spans_intervals = false;
		new.last_start = INT32_MIN;
		new.end = INT32_MAX;
	}
	*w = new;
}

void inlined_init(struct calls *c)
{
	c->memos = region_map_cache(c->regions, sizeof(*c->memos) << MEMO_BITS);
}
