/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/ledger.h"
#include "daemon/trigger/watched-target.h"
#include "lib/base/log.h"

enum {
	TICK_MS = 10,
	HITS_AT_ONCE = 64,
	TURN_NS = 1000000,
	APPLY_SECONDS = 2,  /* how long threads may take to read a list */
	UNREAD_SECONDS = 2, /* how long hits of a process that has ended are read: others may have its memory */
};

static const struct capture_watching *watching_of(const struct watched_target *w)
{
	return w->target->ring.source->ops->watching;
}

static void start_tick(struct watched_target *w)
{
	const struct timeval tick = { 0, TICK_MS * 1000 };

	if (w->ticking)
		return;
	w->ticking = event_add(w->tick, &tick) == 0;
}

static void run_op(struct work *work)
{
	struct watched_target *w = container_of(work, struct watched_target, work);
	struct capture_source *s = w->target->ring.source;

	w->rc = w->sets ? watching_of(w)->set(s, &w->setting, &w->why) : 0;
	if (w->releases)
		watching_of(w)->release(s);
}

static void start_op(struct watched_target *w);

static void op_ran(struct work *work)
{
	struct watched_target *w = container_of(work, struct watched_target, work);

	ring_next(&w->target->ring);
	w->busy = false;
	if (w->sets && w->rc < 0) {
		/* The callee may begin the next operation, which overwrites it. */
		const struct reason why = w->why;

		w->changed_ns = 0;
		w->applied(w->data, w, &why);
	}
	if (w->sets) {
		watching_of(w)->want(w->target->ring.source);
		start_tick(w);
	}
	start_op(w);
	watched_target_unref(w);
}

static void begin_op(struct ring_op *op)
{
	struct watched_target *w = container_of(op, struct watched_target, op);

	w->sets = w->changed;
	w->releases = w->held;
	w->changed = w->held = false;
	w->setting = w->list;
	w->why.text[0] = 0;
	workqueue_submit_for(w->capture_queue, &w->work, w->account);
}

static void start_op(struct watched_target *w)
{
	if (w->busy || (!w->changed && !w->held) || w->target->ring.state == RING_GONE)
		return;
	w->busy = true;
	watched_target_ref(w);
	if (ring_queue(&w->target->ring, &w->op) == 0)
		return;
	/* The next tick tries again. */
	w->busy = false;
	watched_target_unref(w);
	start_tick(w);
}

void watched_target_changed(struct watched_target *w)
{
	w->changed = true;
	w->changed_ns = now_ns(CLOCK_MONOTONIC);
	start_op(w);
}

void watched_target_release(struct watched_target *w)
{
	w->held = true;
	start_op(w);
}

/* Passes hits to hit(), at least one, until this time, CLOCK_MONOTONIC ns; at most EMU_HITS_MAX. True: there may be
 * more. */
static bool read_hits(struct watched_target *w, uint64_t until)
{
	struct emu_hit hits[HITS_AT_ONCE];
	uint64_t before, after;
	size_t n, all = 0;

	do {
		before = w->cursor;
		n = watching_of(w)->hits(w->target->ring.source, &w->cursor, hits, HITS_AT_ONCE);
		after = w->cursor;
		/* One that was overwritten may have frozen the rings, unless another one says that it did. */
		w->missed |= before != UINT64_MAX && after > before && after - before > n;
		for (size_t i = 0; i < n; i++) {
			w->missed &= !hits[i].held;
			w->hit(w->data, w, &hits[i]);
			/* If hit() ended the process, watched_target_settle() may have moved the cursor: it stays. */
			if (w->cursor == after && now_ns(CLOCK_MONOTONIC) >= until) {
				/* The others are read again. */
				w->cursor = atomic_load(&hits[i].number);
				return true;
			}
		}
		all += n;
	} while (n == HITS_AT_ONCE && all < EMU_HITS_MAX);
	if (w->missed && n < HITS_AT_ONCE) {
		w->missed = false;
		watched_target_release(w);
	}
	return n == HITS_AT_ONCE;
}

/* True if the list is in effect, or if there is no point in waiting for that. */
static bool is_applied(struct watched_target *w)
{
	uint32_t limits;

	return w->target->ring.state == RING_GONE || watching_of(w)->applied(w->target->ring.source, &limits) ||
	       now_ns(CLOCK_MONOTONIC) - w->changed_ns > APPLY_SECONDS * 1000000000ull;
}

bool watched_target_settle(struct watched_target *w)
{
	bool settled = !watching_of(w) || watching_of(w)->settled(w->target->ring.source, w->target->gone_ns);

	watched_target_ref(w);
	w->settling = true;
	/* Many may end at once: at most one hit is read here, and the others in turns. */
	if (watching_of(w) && read_hits(w, 0) &&
	    now_ns(CLOCK_MONOTONIC) - w->target->gone_ns < UNREAD_SECONDS * 1000000000ull)
		settled = false;
	w->settling = !settled;
	start_tick(w);
	watched_target_unref(w);
	return settled;
}

static void run_turn(struct turn *t)
{
	struct watched_target *w = watched_target_ref(container_of(t, struct watched_target, turn));
	uint64_t cursor = w->cursor;
	bool more = read_hits(w, now_ns(CLOCK_MONOTONIC) + TURN_NS);

	start_op(w);
	if (w->changed_ns && !w->busy && !w->changed && is_applied(w)) {
		w->changed_ns = 0;
		w->applied(w->data, w, NULL);
	}
	if (!more && w->cursor == cursor && w->target->ring.state != RING_GONE) {
		/* A hit before this is read now; each later one sends a notice. */
		watching_of(w)->want(w->target->ring.source);
		more = read_hits(w, now_ns(CLOCK_MONOTONIC) + TURN_NS);
	}
	if (w->settling && watched_target_settle(w))
		w->settled(w->data, w);
	if (more)
		turns_wait(w->turns, &w->turn, w->account);
	else if (w->cursor != cursor || w->changed_ns || w->changed || w->held)
		start_tick(w);
	watched_target_unref(w);
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
	struct watched_target *w = data;

	w->ticking = false;
	watched_target_drain(w);
}

void watched_target_drain(struct watched_target *w)
{
	turns_wait(w->turns, &w->turn, w->account);
}

int watched_target_new(struct event_base *base, struct turns *turns, struct workqueue *capture_queue, struct target *t,
		       uid_t account, struct watched_target **ret)
{
	struct watched_target *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->refs = 1;
	w->tick = evtimer_new(base, on_tick, w);
	if (!w->tick) {
		free(w);
		return -ENOMEM;
	}
	w->target = target_ref(t);
	w->turns = turns;
	w->turn.run = run_turn;
	w->account = account;
	/* Hits before this are of no trigger. */
	w->cursor = UINT64_MAX;
	if (watching_of(w))
		watching_of(w)->hits(t->ring.source, &w->cursor, NULL, 0);
	w->capture_queue = capture_queue;
	w->op.begin = begin_op;
	w->work = (struct work){ run_op, op_ran };
	*ret = w;
	return 0;
}

struct watched_target *watched_target_ref(struct watched_target *w)
{
	w->refs++;
	return w;
}

struct watched_target *watched_target_unref(struct watched_target *w)
{
	if (!w || --w->refs)
		return NULL;
	turns_leave(w->turns, &w->turn);
	event_free(w->tick);
	target_unref(w->target);
	free(w);
	return NULL;
}
