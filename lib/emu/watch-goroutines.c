/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/code/a64.h"
#include "lib/emu/guest.h"
#include "lib/emu/watch-goroutines.h"

enum {
	GOROUTINE = 28,      /* the register that has the address of struct g */
	BUCKETS = 4096,      /* of goroutines, and of return addresses */
	CALLS_MAX = 1 << 16, /* that are open */
	/* A goroutine begins at most this far from the end of its stack, and is never resumed there: it has a frame. */
	BEGIN_MAX = 64,
};

/* A call that is open. */
struct goroutine_call {
	struct watch_goroutines_place place;
	uint64_t depth, lr, start; /* depth: of the stack at its entry; start: on the goroutine's clock */
	bool cut;                  /* a thread was not traced in part of it */
};

/* A goroutine with open calls. */
struct goroutine {
	struct goroutine *next;         /* of its bucket */
	uint64_t address;               /* of struct g */
	uint64_t offset;                /* of its clock from that of the thread */
	const struct traced_thread *on; /* the thread that ran it last; NULL: that has ended */
	bool parked;                    /* the thread has run another one since */
	/* If parked: when, on the thread's clock, and CLOCK_MONOTONIC; and the control word that it obeyed. */
	uint64_t left, left_real;
	uint32_t word;
	struct goroutine_call *open;
	size_t n_open, room;
};

/* Where a goroutine is. */
struct goroutine_look {
	uint64_t pc, lr, depth;
	bool enters; /* at the beginning of a watched function */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below but the returns */
static struct goroutine *goroutines[BUCKETS];
static struct goroutine *spare; /* one without calls */
static uint32_t n_calls;
/* How many open calls have a return address with this hash. Other addresses are no ends of calls. */
static _Atomic uint32_t returns[BUCKETS];

static unsigned hash_of(uint64_t address)
{
	return (unsigned)(address * 0x9e3779b97f4a7c15ull >> 32) % BUCKETS;
}

static struct goroutine *find(uint64_t address)
{
	struct goroutine *g = goroutines[hash_of(address)];

	while (g && g->address != address)
		g = g->next;
	return g;
}

static struct goroutine *find_or_add(uint64_t address)
{
	struct goroutine **bucket = &goroutines[hash_of(address)], *g = find(address);

	if (g)
		return g;
	g = spare ? spare : calloc(1, sizeof(*g));
	spare = NULL;
	if (!g)
		return NULL;
	*g = (struct goroutine){ .next = *bucket, .address = address, .open = g->open, .room = g->room };
	*bucket = g;
	return g;
}

/* Removes a goroutine without calls. */
static void drop(struct goroutine *g)
{
	struct goroutine **link = &goroutines[hash_of(g->address)];

	while (*link != g)
		link = &(*link)->next;
	*link = g->next;
	if (!spare) {
		spare = g;
		return;
	}
	free(g->open);
	free(g);
}

static void pop_call(struct goroutine *g)
{
	atomic_fetch_sub(&returns[hash_of(g->open[--g->n_open].lr)], 1);
	if (!--n_calls)
		atomic_store(&tracing.following, false);
}

/* Reads the bounds of the goroutine's stack. If g is none, it fails or returns arbitrary bounds. */
static bool read_bounds(uint64_t g, uint64_t ret[2])
{
	return guest_try_read(tracing.base, g, ret, 2 * sizeof(*ret));
}

/* Returns false if the stack pointer is not in the goroutine's stack: the thread is on that of a signal or of C. */
static bool look(const uint64_t bounds[2], uint64_t pc, struct goroutine_look *ret)
{
	uint64_t sp = guest_register(GUEST_SP);

	ret->pc = pc;
	ret->lr = guest_register(GUEST_LR);
	ret->depth = bounds[1] - sp;
	return sp > bounds[0] && sp <= bounds[1];
}

/*
 * Reads the clock of another thread, and CLOCK_MONOTONIC at that time: in a system call, the clock stands where the
 * thread entered that.
 */
static void read_clock(const struct traced_thread *t, uint64_t *ret_time, uint64_t *ret_real)
{
	const struct emu_slot *slot = t->slot;

	*ret_real = now_ns(CLOCK_MONOTONIC);
	*ret_time = tracing_now(t);
	if (!slot)
		return;
	*ret_time = atomic_load(&slot->base_ns) + atomic_load(&slot->instructions);
	if (atomic_load(&slot->state) == EMU_IDLE)
		*ret_real = MIN(*ret_real, *ret_time + atomic_load(&slot->lag_ns));
}

/* The thread runs another goroutine, or ends. */
static void park(struct goroutine *g, const struct traced_thread *t)
{
	g->parked = true;
	g->left = tracing_now(t);
	g->left_real = now_ns(CLOCK_MONOTONIC);
	g->word = t->seen;
}

static void cut_calls(struct goroutine *g)
{
	for (size_t i = 0; i < g->n_open; i++)
		g->open[i].cut = true;
}

/* Continues the clock of the goroutine on the thread that runs it now, perhaps after another thread. */
static void resume(struct goroutine *g, const struct traced_thread *t)
{
	uint64_t time = g->left, real = g->left_real, now = now_ns(CLOCK_MONOTONIC);
	/* The clock of this thread may have stood still meanwhile. */
	bool elsewhere = g->on != t || (g->parked && g->word != t->seen);

	if (elsewhere && tracing.options.clock != EMU_CLOCK_WALL) {
		if (!g->parked)
			read_clock(g->on, &time, &real);
		g->offset += time + (now > real ? now - real : 0) - tracing_now(t);
	}
	g->on = t;
	g->parked = false;
}

/* Records which goroutine the thread runs now. Returns it if it has calls that are open. */
static struct goroutine *run(struct traced_thread *t)
{
	uint64_t address = guest_register(GOROUTINE);
	struct goroutine *former = t->goroutine == address ? NULL : find(t->goroutine), *g = find(address);

	if (former && former->on == t && !former->parked)
		park(former, t);
	t->goroutine = address;
	if (g)
		resume(g, t);
	return g;
}

/* True if the call is still open, though it has no frame: in its function, or in one that it left to by a tail call. */
static bool is_inside(const struct goroutine_call *c, const struct goroutine_look *l)
{
	return l->depth == c->depth && l->lr == c->lr && (l->enters || l->pc - c->place.address < c->place.size);
}

/* Ends the innermost call. */
static void end_call(struct goroutine *g, const struct traced_thread *t, enum emu_hit_how how, bool known,
		     struct watch_goroutines_end *ret)
{
	const struct goroutine_call *c = &g->open[g->n_open - 1];
	uint64_t now = tracing_now(t) + g->offset;

	*ret = (struct watch_goroutines_end){ .watch = c->place.watch,
					      .serial = c->place.serial,
					      .how = how,
					      .known = known && !c->cut && !tracing_clock_stands(t),
					      .ns = (int64_t)(now - c->start) > 0 ? now - c->start : 0 };
	pop_call(g);
	if (!g->n_open)
		drop(g);
}

/* Ends the innermost call if the goroutine has left it. */
static bool end_if_left(struct goroutine *g, const struct traced_thread *t, const struct goroutine_look *l,
			struct watch_goroutines_end *ret)
{
	const struct goroutine_call *c = &g->open[g->n_open - 1];
	bool returned = l->depth == c->depth && l->pc == c->lr;

	if (l->depth > c->depth || (!returned && is_inside(c, l)))
		return false;
	end_call(g, t, returned ? EMU_HIT_RETURNED : EMU_HIT_LEFT, returned || l->depth > BEGIN_MAX, ret);
	return true;
}

static bool end_any(struct traced_thread *t, uint64_t pc, bool enters, struct watch_goroutines_end *ret)
{
	struct goroutine_look l = { .enters = enters };
	struct goroutine *g;
	bool ended = false;

	pthread_mutex_lock(&lock);
	g = run(t);
	/* What has calls is a goroutine, and Go frees none. */
	if (g) {
		uint64_t bounds[2] = { guest_u64(tracing.base, g->address), guest_u64(tracing.base, g->address + 8) };

		ended = look(bounds, pc, &l) && end_if_left(g, t, &l, ret);
	}
	pthread_mutex_unlock(&lock);
	return ended;
}

/* The thread is not traced, by a clock that stands still meanwhile. */
static void cut(struct traced_thread *t)
{
	struct goroutine *g;

	pthread_mutex_lock(&lock);
	g = run(t);
	if (g)
		cut_calls(g);
	pthread_mutex_unlock(&lock);
}

bool watch_goroutines_step(struct traced_thread *t, const struct traced_block *before, uint64_t address,
			   struct watch_goroutines_end *ret)
{
	if (tracing_clock_stands(t))
		cut(t);
	/* Not only returns: Go's runtime resumes a goroutine by an indirect jump. */
	if (before && (before->kind != A64_INDIRECT || before->link ||
		       (before->returns && !atomic_load(&returns[hash_of(address)]))))
		return false;
	return end_any(t, address, false, ret);
}

bool watch_goroutines_left(struct traced_thread *t, const struct watch_goroutines_place *p,
			   struct watch_goroutines_end *ret)
{
	return end_any(t, p->address, true, ret);
}

/* True if the call is open: a signal interrupted it where it begins. */
static bool is_open(const struct goroutine *g, const struct watch_goroutines_place *p, const struct goroutine_look *l)
{
	for (size_t i = g->n_open; i > 0 && g->open[i - 1].depth == l->depth; i--)
		if (g->open[i - 1].place.watch == p->watch && g->open[i - 1].place.serial == p->serial &&
		    g->open[i - 1].lr == l->lr)
			return true;
	return false;
}

static bool open_call(struct traced_thread *t, const struct watch_goroutines_place *p, const struct goroutine_look *l)
{
	struct goroutine *g = n_calls < CALLS_MAX ? find_or_add(t->goroutine) : NULL;

	if (!g)
		return false;
	if (is_open(g, p, l))
		return true;
	if (array_reserve(g->open, g->n_open, &g->room) < 0) {
		if (!g->n_open)
			drop(g);
		return false;
	}
	g->on = t;
	g->open[g->n_open++] = (struct goroutine_call){ .place = *p,
							.depth = l->depth,
							.lr = l->lr,
							.start = tracing_now(t) + g->offset,
							.cut = tracing_clock_stands(t) };
	atomic_fetch_add(&returns[hash_of(l->lr)], 1);
	n_calls++;
	atomic_store(&tracing.following, true);
	return true;
}

bool watch_goroutines_enter(struct traced_thread *t, const struct watch_goroutines_place *p)
{
	struct goroutine_look l;
	uint64_t bounds[2];
	bool good;

	pthread_mutex_lock(&lock);
	run(t);
	good = read_bounds(t->goroutine, bounds) && look(bounds, p->address, &l) && open_call(t, p, &l);
	pthread_mutex_unlock(&lock);
	return good;
}

bool watch_goroutines_thread_ends(struct traced_thread *t, struct watch_goroutines_end *ret)
{
	struct goroutine *g;

	pthread_mutex_lock(&lock);
	g = run(t);
	if (g)
		end_call(g, t, EMU_HIT_ENDED, true, ret);
	pthread_mutex_unlock(&lock);
	return g;
}

void watch_goroutines_thread_done(const struct traced_thread *t)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; n_calls && i < BUCKETS; i++)
		for (struct goroutine *g = goroutines[i]; g; g = g->next) {
			if (g->on != t)
				continue;
			if (!g->parked)
				park(g, t);
			g->on = NULL;
		}
	pthread_mutex_unlock(&lock);
}

void watch_goroutines_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void watch_goroutines_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

void watch_goroutines_forked(void)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		while (goroutines[i]) {
			goroutines[i]->n_open = 0;
			drop(goroutines[i]);
		}
		atomic_store(&returns[i], 0);
	}
	n_calls = 0;
	atomic_store(&tracing.following, false);
}
