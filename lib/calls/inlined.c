/*
 * Inlined functions as frames. They are not on lib/calls' own stack, where returns and jumps are looked up: each frame
 * there has the innermost that it is in, which knows those around it.
 */
#include "lib/base/util.h"
#include "lib/calls/state.h"

enum {
	INSTRUCTION = 4,
	WALK_BITS = 13,
	WALK_MOVES = 5,
	WALK_STEPS = 48,
	WALK_LONG = WALK_MOVES + 1, /* moves: it is not told */
};

struct walk_move {
	const struct inlined *to;
	uint32_t pos; /* instructions before it */
	uint8_t left, entered;
};

/*
 * What a range that begins at start, with control in from before, does to what is inlined in its function: so it is at
 * all times, and wherever it ends in the last of the stretches that it goes through. What went on before it may yet
 * take its first entries back.
 */
struct walk {
	uint64_t start;
	const struct region *function; /* NULL: none */
	const struct inlined *from;
	int32_t first, stretch,
	    end;         /* from start on: where the first stretch begins, the last one, and where that ends */
	uint16_t events; /* that wait at once, of it, at most */
	uint8_t n;
	bool goes_on; /* from one stretch to another */
	struct walk_move moves[WALK_MOVES];
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct walk) == 128, "two cache lines");

static uint32_t depth_of(const struct inlined *i)
{
	return i ? i->depth : 0;
}

static int enter(struct calls *c, const struct inlined *from, const struct inlined *to, enum call_kind kind)
{
	int rc = to->around == from ? 0 : enter(c, from, to->around, kind);

	return rc < 0 ? rc : calls_put_inlined(c, CALL_EVENT_ENTER, kind, to);
}

/* The one that is told; what it is in has been there since the segment began, too. */
static int tell_root(struct calls *c, struct frame *f)
{
	f->root = f->root->around;
	c->counts.roots++;
	return f->root ? calls_put_inlined(c, CALL_EVENT_ROOT, CALL_INFERRED, f->root)
		       : calls_put(c, CALL_EVENT_ROOT, CALL_INFERRED, f->function);
}

static int leave(struct calls *c, const struct inlined *until, enum leave_kind kind)
{
	struct frame *f = top(c);
	int rc = 0;

	while (rc == 0 && f->inlined != until) {
		const struct inlined *left = f->inlined;

		f->inlined = left->around;
		rc = calls_put_inlined(c, CALL_EVENT_LEAVE, kind, left);
		if (rc == 0 && f->root == left)
			rc = tell_root(c, f);
	}
	return rc;
}

int inlined_enter(struct calls *c, enum call_kind kind)
{
	return top(c)->inlined ? enter(c, NULL, top(c)->inlined, kind) : 0;
}

int inlined_leave(struct calls *c, enum leave_kind kind)
{
	return leave(c, NULL, kind);
}

/*
 * Of what is about to be entered, from outside to inside, the part that was left last, with nothing entered since:
 * compilers mix the instructions of an inlined function with those around it, and that was no end of it.
 */
static const struct inlined *come_back(struct calls *c, const struct inlined *from, const struct inlined *to)
{
	while (from != to) {
		const struct inlined *next = to;

		while (next->around != from)
			next = next->around;
		if (!spread_take_back(&c->spread, next))
			break;
		from = next;
	}
	return from;
}

/* One after the other. */
static int move_singly(struct calls *c, const struct inlined *both, const struct inlined *to, enum leave_kind kind)
{
	int rc = leave(c, both, kind);

	if (rc < 0 || to == both)
		return rc;
	top(c)->inlined = to;
	both = come_back(c, both, to);
	return both == to ? 0 : enter(c, both, to, CALL_INLINED);
}

int inlined_move(struct calls *c, const struct inlined *to, enum leave_kind kind)
{
	struct frame *f = top(c);
	const struct inlined *from = f->inlined, *both = from, *other = to;
	uint32_t left, entered;

	/* One deeper, or one less, are the most. */
	if (to && to->around == from) {
		left = 0;
		entered = 1;
	} else if (from && from->around == to) {
		both = to;
		left = 1;
		entered = 0;
	} else {
		while (both != other) {
			if (depth_of(both) >= depth_of(other))
				both = both->around;
			else
				other = other->around;
		}
		left = depth_of(from) - depth_of(both);
		entered = depth_of(to) - depth_of(both);
	}
	if (kind != LEAVE_RETURN || f->root || !spread_fits(&c->spread, left, entered))
		return move_singly(c, both, to, kind);
	f->inlined = to;
	if (!left && spread_ends_in_leave(&c->spread))
		entered = depth_of(to) - depth_of(come_back(c, both, to));
	return left || entered ? spread_move(&c->spread, c->counts.instructions, from, to, left, entered) : 0;
}

static struct walk *walk_at(const struct calls *c, uint64_t start, const struct inlined *from)
{
	return &c->walks[(start ^ (uintptr_t)from << 20) * 0x9e3779b97f4a7c15u >> (64 - WALK_BITS)];
}

/* How many instructions lie before an address of it follows from that. */
static inline bool is_even(const struct element *e)
{
	return e->range.end - e->range.start == (uint64_t)e->range.count * INSTRUCTION;
}

/* It is known, or that it is not to be told. */
static inline bool is_known(const struct walk *w, const struct element *e, const struct inlined *from,
			    const struct region *function, uint64_t last)
{
	int64_t at = (int64_t)(last - w->start);

	return w->start == e->range.start && w->from == from && w->function == function && at >= w->stretch &&
	       at < w->end && (!w->goes_on || is_even(e));
}

/* What is entered, less what was left just before. */
static uint32_t entered_of(struct calls *c, const struct walk_move *m)
{
	const struct inlined *both = m->to;

	for (unsigned i = 0; i < m->entered; i++)
		both = both->around;
	return depth_of(m->to) - depth_of(come_back(c, both, m->to));
}

int inlined_walk(struct calls *c, const struct element *e, uint64_t last)
{
	struct frame *f = top(c);
	struct spread *s = &c->spread;
	const struct inlined *at = f->inlined;
	const struct walk *w = walk_at(c, e->range.start, at);
	int rc = 0;

	if (!is_known(w, e, at, f->function, last) || w->n > WALK_MOVES || f->root || c->left == LEAVE_UNWOUND ||
	    s->counted || !spread_fits(s, w->events, 0))
		return 0;
	if (w->start + (uint64_t)w->first < c->stretch)
		spread_keep(s);
	c->stretch = w->start + (uint64_t)w->stretch;
	c->left = LEAVE_RETURN;
	for (unsigned i = 0; rc == 0 && i < w->n; i++) {
		const struct walk_move *m = &w->moves[i];
		uint32_t entered = !m->left && spread_ends_in_leave(s) ? entered_of(c, m) : m->entered;

		if (m->left || entered)
			rc = spread_move(s, c->counts.instructions + m->pos, at, m->to, m->left, entered);
		at = m->to;
	}
	f->inlined = at;
	return rc < 0 ? rc : 1;
}

/* An address as a walk has it; false: it lies too far away. */
static bool lies_at(const struct walk *w, uint64_t address, int32_t *ret)
{
	*ret = (int32_t)(address - w->start);
	return w->start + (uint64_t)*ret == address;
}

/* The same, of a stack of one frame, which nothing came before. */
static bool walk_through(struct calls *c, const struct element *e, uint64_t last, struct walk *w)
{
	struct spread *s = &c->spread;
	uint64_t at = w->start;

	for (unsigned i = 0; i < WALK_STEPS; i++, at = c->here.end) {
		c->counts.instructions = (at - w->start) / INSTRUCTION;
		if (look(c, at) < 0 || c->here.from || c->here.until != UINT64_MAX || c->here.region != w->function ||
		    w->function->kind != REGION_FUNCTION || (i && !is_even(e)) ||
		    (!i && !lies_at(w, c->here.start, &w->first)) ||
		    (top(c)->inlined != c->here.inlined && inlined_move(c, c->here.inlined, LEAVE_RETURN) < 0))
			return false;
		w->events = (uint16_t)MAX(w->events, s->events);
		w->goes_on = i > 0;
		if (last < c->here.end)
			return s->n <= WALK_MOVES && lies_at(w, c->here.start, &w->stretch) &&
			       lies_at(w, c->here.end, &w->end);
	}
	return false;
}

/* Where control is after each: what it was in, less what was left, where nothing was entered. */
static void note_moves(struct walk *w, const struct spread *s)
{
	for (w->n = 0; w->n < s->n; w->n++) {
		const struct spread_item *item = &s->items[w->n];
		struct walk_move *m = &w->moves[w->n];

		*m = (struct walk_move){ item->inlined, (uint32_t)item->pos, item->left, item->entered };
		if (m->entered)
			continue;
		m->to = item->from;
		for (unsigned i = 0; i < m->left; i++)
			m->to = m->to->around;
	}
}

void inlined_learn(struct calls *c, const struct element *e, uint64_t last, const struct inlined *from)
{
	struct walk *w = walk_at(c, e->range.start, from),
		    new = { .start = e->range.start, .function = top(c)->function, .from = from };
	struct spread_item items[WALK_STEPS];
	struct frame frame = { .function = new.function, .inlined = from };
	struct calls alone = { .regions = c->regions, .recent = c->recent, .stack = &frame, .depth = 1 };

	if (!new.function || is_known(w, e, from, new.function, last))
		return;
	alone.spread = (struct spread){ .items = items, .room = WALK_STEPS, .stamp = c->spread.stamp };
	if (walk_through(&alone, e, last, &new)) {
		note_moves(&new, &alone.spread);
	} else {
		new.n = WALK_LONG;
		new.goes_on = false;
		new.stretch = INT32_MIN;
		new.end = INT32_MAX;
	}
	*w = new;
}

void inlined_init(struct calls *c)
{
	c->walks = region_map_room(c->regions, sizeof(*c->walks) << WALK_BITS);
}
