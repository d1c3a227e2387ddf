/* SPDX-License-Identifier: MIT */
/*
 * daemon/trigger/watched-target.c: the hits of a process that has ended, of which another one adds more without end;
 * hits that were overwritten.
 */
#include "config.h"

#include <event2/event.h>
#include <unistd.h>

#include "daemon/trigger/watched-target.h"
#include "tests/unit.h"

enum { LONG_AGO_SECONDS = 60 };

static size_t got;

static size_t endless(struct capture_source *s, uint64_t *cursor, struct emu_hit *ret, size_t max)
{
	if (*cursor == UINT64_MAX)
		*cursor = 0;
	for (size_t n = 0; n < max; n++) {
		ret[n] = (struct emu_hit){ .trigger = 1 };
		atomic_store(&ret[n].number, ++*cursor);
	}
	return max;
}

static unsigned jump; /* to the next hit */
static bool froze;    /* that it did */

static size_t skipping(struct capture_source *s, uint64_t *cursor, struct emu_hit *ret, size_t max)
{
	if (*cursor == UINT64_MAX)
		*cursor = 0;
	if (!jump)
		return 0;
	*cursor += jump;
	jump = 0;
	*ret = (struct emu_hit){ .trigger = 1, .held = froze };
	atomic_store(&ret->number, *cursor);
	return 1;
}

static bool settled(struct capture_source *s, uint64_t ended)
{
	return true;
}

static struct capture_source *release(struct capture_source *s)
{
	free(s);
	return NULL;
}

static struct capture_watching watching = { .hits = endless, .settled = settled };
static const struct capture_ops ops = { .watching = &watching, .free = release };

static void count(void *data, struct watched_target *w, const struct emu_hit *h)
{
	got++;
}

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = LEDGER_UNLIMITED;
}

static void test_end(struct watched_target *w)
{
	w->target->gone_ns = now_ns(CLOCK_MONOTONIC);
	CHECK(!watched_target_settle(w));
	CHECK_EQ(got, 1u);
	CHECK_EQ(w->cursor, 1u);
	CHECK(w->settling);
	w->target->gone_ns -= LONG_AGO_SECONDS * 1000000000ull;
	CHECK(watched_target_settle(w));
	CHECK(!w->settling);
}

/* True if the rings are released after a hit. */
static bool releases(struct watched_target *w, unsigned distance, bool freezes)
{
	bool released;

	jump = distance;
	froze = freezes;
	watched_target_settle(w);
	watched_target_settle(w);
	released = w->held;
	w->held = false;
	return released;
}

static void test_overwritten(struct watched_target *w)
{
	watching.hits = skipping;
	w->target->ring.state = RING_GONE;
	CHECK(!releases(w, 1, false));
	CHECK(!releases(w, 1, true));
	CHECK(releases(w, 100, false));
	CHECK(!releases(w, 1, false));
	/* This one will have its snapshot. */
	CHECK(!releases(w, 100, true));
}

int main(void)
{
	const struct ledger_options options = { .limits = limits_of };
	struct capture_source *source = calloc(1, sizeof(*source));
	struct target *t = calloc(1, sizeof(*t));
	struct event_base *base = event_base_new();
	struct watched_target *w = NULL;
	struct ledger *ledger = NULL;
	struct turns *turns = NULL;

	if (!source || !t || !base || ledger_new(&options, &ledger) < 0 || turns_new(base, ledger, &turns) < 0)
		return 1;
	source->ops = &ops;
	t->refs = 1;
	t->pidfd = -1;
	ring_init(&t->ring, getpid(), source);
	CHECK_EQ(watched_target_new(base, turns, NULL, t, getuid(), &w), 0);
	w->hit = count;
	test_end(w);
	test_overwritten(w);
	watched_target_unref(w);
	target_unref(t);
	turns_free(turns);
	ledger_free(ledger);
	event_base_free(base);
	return unit_end();
}
