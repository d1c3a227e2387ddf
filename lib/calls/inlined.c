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
	MEMO_ITEMS = 64,                /* more than MEMO_MOVES and what one arrival adds */
	MEMO_TOO_LONG = MEMO_MOVES + 1, /* number of moves of a range that cannot be memoised */
};

struct memo_move {
	const struct inlined *to;
	uint32_t pos; /* instructions of the range before it */
	uint8_t left, entered, kind;
};

/*
 * Memoised moves of a range that begins at start while control is in `from`. They hold at all times, and for every
 * range that ends in the same last interval of addresses. Functions that are resumed first may still have to be
 * cancelled against leaves that precede the range.
 *
 * Where a call begins at start, of a function that control is in already, the direction matters: the memo of a jump
 * back has one added to `from`.
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
	bool directed;        /* there may be another memo for a jump back */
	bool begins_first;    /* the first enters hold only if they could not be cancelled against leaves */
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
	return emit_enters(c, NULL, calls_top(c)->inlined, kind);
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
static int emit_move_singly(struct calls *c, const struct inlined *both, const struct inlined *to, enum leave_kind kind,
			    enum call_kind entered)
{
	int rc = leave_until(c, both, kind);

	if (rc < 0 || to == both)
		return rc;
	calls_top(c)->inlined = to;
	if (entered == CALL_RESUMED)
		both = resume_inlined(c, both, to);
	return both == to ? 0 : emit_enters(c, both, to, entered);
}

/* Begins a call of `to` where it was resumed, if nothing else happened since. left: functions left from `from`
 * outwards. */
static bool begin_call(struct calls *c, const struct inlined *from, const struct inlined *to, uint32_t left)
{
	bool begins = (!left || (left == 1 && from == to)) && event_times_begin_call(&c->times, to);

	c->resumed_begins = c->resumed_begins || begins;
	return begins;
}

/* Moves control of the frame on top to `to`; both: the innermost function around it that remains. */
static int move_control(struct calls *c, const struct inlined *both, const struct inlined *to, enum leave_kind kind,
			enum call_kind entered)
{
	struct calls_frame *f = calls_top(c);
	uint32_t n_left = depth_of(f->inlined) - depth_of(both), n_entered = depth_of(to) - depth_of(both);
	struct inlined_change m = { f->inlined, to, (uint8_t)n_left, 0, (uint8_t)entered };

	if (kind != LEAVE_RETURN || f->root || !event_times_fit(&c->times, n_left, n_entered))
		return emit_move_singly(c, both, to, kind, entered);
	if (entered == CALL_INLINED && begin_call(c, f->inlined, to, n_left)) {
		f->inlined = to;
		return 0;
	}
	f->inlined = to;
	if (entered == CALL_INLINED && !n_left && event_times_extend_call(&c->times, c->counts.instructions, to))
		return 0;
	if (entered == CALL_RESUMED && !n_left && event_times_end_in_leave(&c->times))
		n_entered = depth_of(to) - depth_of(resume_inlined(c, both, to));
	m.entered = (uint8_t)n_entered;
	return n_left || n_entered ? event_times_add_move(&c->times, c->counts.instructions, &m) : 0;
}

static const struct inlined *innermost_of_both(const struct inlined *a, const struct inlined *b)
{
	while (a != b) {
		if (depth_of(a) >= depth_of(b))
			a = a->parent;
		else
			b = b->parent;
	}
	return a;
}

/* Begins a call of an inlined function. Control may be in an earlier call of the same one, which ends. */
static int call_inlined(struct calls *c, const struct inlined *to, enum leave_kind kind)
{
	const struct inlined *both = innermost_of_both(calls_top(c)->inlined, to->parent);
	int rc = both == to->parent ? 0 : move_control(c, both, to->parent, kind, CALL_RESUMED);

	return rc < 0 ? rc : move_control(c, to->parent, to, kind, CALL_INLINED);
}

static bool is_within(const struct inlined *i, const struct inlined *outer)
{
	while (depth_of(i) > depth_of(outer))
		i = i->parent;
	return i == outer;
}

int inlined_arrive(struct calls *c, uint64_t addr, bool backward, enum leave_kind kind)
{
	const struct inlined *const *call = addr == c->here.start ? c->here.entered : NULL, *from,
				    *to = c->here.inlined;
	int rc = 0;

	/* A jump back from within a call is a loop of the function. */
	for (; rc == 0 && call && *call; call++)
		if (!backward || !is_within(calls_top(c)->inlined, *call))
			rc = call_inlined(c, *call, kind);
	from = calls_top(c)->inlined;
	return rc < 0 || from == to ? rc : move_control(c, innermost_of_both(from, to), to, kind, CALL_RESUMED);
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

/* Returns true if the move's outermost call begins where the function was resumed before the range. */
static bool memo_begins_call(struct calls *c, const struct memo_move *m, const struct inlined *from)
{
	const struct inlined *to = m->to;

	for (unsigned i = 1; i < m->entered; i++)
		to = to->parent;
	return m->entered && begin_call(c, from, to, m->left);
}

/* Returns `from` as the memos of jumps back have it (struct inlined_memo). */
static const struct inlined *directed_key(const struct inlined *from)
{
	return (const struct inlined *)((uintptr_t)from + 1);
}

int inlined_replay(struct calls *c, const struct element *e, uint64_t last, bool backward)
{
	struct calls_frame *f = calls_top(c);
	struct event_times *s = &c->times;
	struct inlined_change change = { .to = f->inlined };
	const struct inlined_memo *w = memo_at(c, e->range.start, change.to);
	int rc = 0;

	if (!memo_matches(w, e, change.to, f->function, last))
		return 0;
	if (w->directed && backward) {
		w = memo_at(c, e->range.start, directed_key(change.to));
		if (!memo_matches(w, e, directed_key(change.to), f->function, last))
			return 0;
	}
	if (w->n > MEMO_MOVES || f->root || c->last_leave == LEAVE_UNWOUND || s->counted ||
	    !event_times_fit(s, w->events, 0))
		return 0;
	if (w->start + (uint64_t)w->first < c->last_start)
		event_times_commit(s);
	if (w->begins_first && event_times_end_in_leave(s))
		return 0;
	c->last_start = w->start + (uint64_t)w->last_start;
	c->last_leave = LEAVE_RETURN;
	for (unsigned i = 0; rc == 0 && i < w->n; i++) {
		const struct memo_move *m = &w->moves[i];
		bool resumes = m->kind == CALL_RESUMED && !m->left && event_times_end_in_leave(s);

		change = (struct inlined_change){ change.to, m->to, m->left, m->entered, m->kind };
		if (resumes)
			change.entered = (uint8_t)memo_entered(c, m);
		else if (!i && m->kind == CALL_INLINED && memo_begins_call(c, m, change.from)) {
			change.left = 0;
			change.entered--;
		}
		if (change.left || change.entered)
			rc = event_times_add_move(s, c->counts.instructions + m->pos, &change);
	}
	f->inlined = change.to;
	return rc < 0 ? rc : 1;
}

/* Stores an address as an offset from the memo's start; returns false if it does not fit. */
static bool memo_offset(const struct inlined_memo *w, uint64_t address, int32_t *ret)
{
	*ret = (int32_t)(address - w->start);
	return w->start + (uint64_t)*ret == address;
}

/* Returns true if a call that begins at an address is of a function that control in `from` is in already. */
static bool repeats_call(const struct region_hit *here, uint64_t at, const struct inlined *from)
{
	const struct inlined *const *call = at == here->start ? here->entered : NULL;

	while (call && *call && !is_within(from, *call))
		call++;
	return call && *call;
}

/* Fills the memo by executing the range on a stack of one frame without history. */
static bool memo_execute(struct calls *c, const struct element *e, uint64_t last, bool backward, struct inlined_memo *w)
{
	struct event_times *s = &c->times;
	uint64_t at = w->start;

	for (unsigned i = 0; i < MEMO_STEPS; i++, at = c->here.end) {
		c->counts.instructions = (at - w->start) / INSTRUCTION_SIZE;
		if (calls_set_here(c, at) < 0 || c->here.from || c->here.until != UINT64_MAX ||
		    c->here.region != w->function || w->function->kind != REGION_FUNCTION ||
		    (i && !has_fixed_size_instructions(e)) || (!i && !memo_offset(w, c->here.start, &w->first)))
			return false;
		w->directed = w->directed || (!i && repeats_call(&c->here, at, calls_top(c)->inlined));
		if (inlined_arrive(c, at, !i && backward, LEAVE_RETURN) < 0)
			return false;
		w->events = (uint16_t)MAX(w->events, s->events);
		w->spans_intervals = i > 0;
		if (s->n > MEMO_MOVES)
			return false;
		if (last < c->here.end)
			return memo_offset(w, c->here.start, &w->last_start) && memo_offset(w, c->here.end, &w->end);
	}
	return false;
}

/* Copies the moves, each with the innermost inlined function after it. */
static void memo_set_moves(struct inlined_memo *w, const struct event_times *s)
{
	for (w->n = 0; w->n < s->n; w->n++) {
		const struct pending_event *item = &s->items[w->n];
		struct memo_move *m = &w->moves[w->n];

		*m = (struct memo_move){ item->inlined, (uint32_t)item->pos, item->left, item->entered, item->kind };
		if (m->entered)
			continue;
		m->to = item->from;
		for (unsigned i = 0; i < m->left; i++)
			m->to = m->to->parent;
	}
}

static void memo_fill(struct calls *c, const struct element *e, uint64_t last, bool backward, struct inlined_memo *w)
{
	struct pending_event items[MEMO_ITEMS];
	struct calls_frame frame = { .function = w->function, .inlined = w->from };
	struct calls alone = { .regions = c->regions, .recent = c->recent, .stack = &frame, .depth = 1 };

	alone.times = (struct event_times){ .items = items, .capacity = MEMO_ITEMS, .stamp = c->times.stamp };
	if (memo_execute(&alone, e, last, backward, w)) {
		memo_set_moves(w, &alone.times);
		w->begins_first = alone.resumed_begins && !w->moves[0].left;
	} else {
		w->n = MEMO_TOO_LONG;
		w->spans_intervals = false;
		w->last_start = INT32_MIN;
		w->end = INT32_MAX;
	}
}

void inlined_memoise(struct calls *c, const struct element *e, uint64_t last, const struct inlined *from)
{
	struct inlined_memo *w = memo_at(c, e->range.start, from),
			    new = { .start = e->range.start, .function = calls_top(c)->function, .from = from };

	if (!new.function)
		return;
	if (!memo_matches(w, e, from, new.function, last)) {
		memo_fill(c, e, last, false, &new);
		*w = new;
	}
	if (!w->directed)
		return;
	new = (struct inlined_memo){ .start = e->range.start, .function = new.function, .from = from };
	memo_fill(c, e, last, true, &new);
	new.from = directed_key(from);
	*memo_at(c, e->range.start, new.from) = new;
}

void inlined_init(struct calls *c)
{
	c->memos = region_map_cache(c->regions, sizeof(*c->memos) << MEMO_BITS);
}
