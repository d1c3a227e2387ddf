/* SPDX-License-Identifier: MIT */
/* What the user of a target may have of the machine's trace units, together with its other targets. */
#include "config.h"

#include <sys/resource.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/perf/replay-log.h"
#include "lib/base/util.h"

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
		size_t n = grid_events(&t->grid) + perf_watch_events(t);

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
	return (s->plan ? s->plan->memory : 0) + (s->log ? REPLAY_LOG_SIZE : 0);
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
