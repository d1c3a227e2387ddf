/* SPDX-License-Identifier: MIT */
/*
 * What the user of a target may have of the machine's trace units, and of the capture thread's time, together with its
 * other targets.
 */
#include "config.h"

#include <sys/resource.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/perf/replay-log.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum {
	REST = 7,            /* of the time, one part in 8 is for what an account's targets cause */
	CHANGES_MAX = 32768, /* records in a window */
};

static const uint64_t window_ns = PERF_DRAIN_MS * 1000000ull;

static uint64_t rest(uint64_t most, uint64_t used)
{
	return most - MIN(most, used);
}

static bool same_account(const struct perf_target *a, const struct perf_target *b)
{
	return a->base.share.account == b->base.share.account;
}

size_t perf_share_events(const struct perf_target *s)
{
	struct rlimit files = { 0 };
	const struct perf_target *t;
	uint64_t own = 0, all = 0, most;

	TAILQ_FOREACH (t, &s->m->sources, link) {
		size_t n = grid_events(&t->grid) + perf_watch_events(t) + t->counters.n_events;

		all += n;
		own += same_account(t, s) ? n : 0;
	}
	/* The other descriptors are for connections and files (daemon/limits.c). */
	getrlimit(RLIMIT_NOFILE, &files);
	most = files.rlim_cur / 8 * 3;
	return s->base.share.divided ? rest(rest(most, all - own) / 2, own) : rest(most, all);
}

uint64_t perf_share_memory(const struct perf_target *s)
{
	return (s->plan ? s->plan->memory : 0) + (s->log ? REPLAY_LOG_SIZE : 0) +
	       pmu_counters_memory(&s->counters, s->counters.n_rings);
}

uint64_t perf_share_rings(const struct perf_target *s)
{
	const struct capture_share *share = &s->base.share;
	uint64_t own = keeper_client_is_connected(s->m->keeper) ? REPLAY_LOG_SIZE : 0, left;
	const struct perf_target *t;

	TAILQ_FOREACH (t, &s->m->sources, link)
		own += t != s && same_account(t, s) ? perf_share_memory(t) : 0;
	left = rest(share->rings, own);
	if (share->divided)
		left = MIN(left, rest(rest(s->m->settings.memory, rest(s->m->memory, own)) / 2, own));
	return left;
}

/* NULL: it has none yet. */
static struct perf_account *find_account(const struct perf_target *s)
{
	const struct perf_machine *m = s->m;

	for (size_t i = 0; i < m->n_accounts; i++)
		if (m->accounts[i].account == s->base.share.account)
			return &m->accounts[i];
	return NULL;
}

/* NULL: it is not bounded, or there is no memory. */
static struct perf_account *find_or_add_account(struct perf_target *s)
{
	struct perf_machine *m = s->m;
	struct perf_account *a = find_account(s);

	if (a || !s->base.share.divided || array_reserve(m->accounts, m->n_accounts, &m->accounts_room) < 0)
		return a;
	m->accounts[m->n_accounts] = (struct perf_account){ .account = s->base.share.account };
	return &m->accounts[m->n_accounts++];
}

bool perf_share_rests(const struct perf_target *s)
{
	const struct perf_account *a = find_account(s);

	return a && now_ns(CLOCK_MONOTONIC) < a->rest_until;
}

void perf_share_worked(struct perf_target *s, uint64_t begun)
{
	struct perf_account *a = find_or_add_account(s);
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (a)
		a->rest_until = MAX(a->rest_until, now) + REST * (now - begun);
}

bool perf_share_count_record(struct perf_target *s)
{
	struct perf_account *a = find_or_add_account(s);

	if (!a)
		return true;
	if (s->m->reading - a->window > window_ns) {
		a->window = s->m->reading;
		a->n_changes = 0;
	}
	return a->n_changes++ < CHANGES_MAX;
}
