/* SPDX-License-Identifier: MIT */
/* The list of targets: history within limits, and those that have left. */
#include "config.h"

#include "daemon/policy.h"
#include "daemon/target-internal.h"
#include "lib/base/log.h"

enum { AGE_SECONDS = 5 };

void target_list_remove(struct target_list *all, struct target *t)
{
	log_debug("dropped the history of process %d", (int)t->pid);
	/* The links stay as they are, for a walk that is at this target. */
	TAILQ_REMOVE(&all->list, t, link);
	t->listed = false;
	STAILQ_INSERT_TAIL(&all->leaving, t, leaving);
	event_active(all->sweep, EV_TIMEOUT, 0);
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
	struct target_list *all = data;
	struct target *t;

	while ((t = STAILQ_FIRST(&all->leaving))) {
		STAILQ_REMOVE_HEAD(&all->leaving, leaving);
		/* How it ended will not become known any more; or it is disarmed. */
		if (!t->ending.known && all->o.ended)
			all->o.ended(all->o.data, t);
		target_unref(t);
	}
}

static bool is_history(const struct target *t, uid_t account)
{
	return t->ring.state == RING_GONE && ledger_owner(t->all->o.ledger, t->owner) == account;
}

/* Returns the target of an account that ended first. The list has another order: a parent precedes its children. */
static struct target *oldest_history(const struct target_list *all, uid_t account)
{
	struct target *t, *oldest = NULL;

	TAILQ_FOREACH (t, &all->list, link)
		if (is_history(t, account) && (!oldest || t->gone_ns < oldest->gone_ns))
			oldest = t;
	return oldest;
}

void target_list_limit_history(struct target_list *all, uid_t uid)
{
	uid_t account = ledger_owner(all->o.ledger, uid);
	const struct settings *s = all->o.settings;
	struct target *t;
	uint64_t bytes = 0, count = 0;

	TAILQ_FOREACH (t, &all->list, link)
		if (is_history(t, account)) {
			count++;
			bytes += t->ring.source->ops->memory(t->ring.source);
		}
	while ((count > s->history_targets || bytes > s->history_bytes) && (t = oldest_history(all, account))) {
		count--;
		bytes -= MIN(bytes, t->ring.source->ops->memory(t->ring.source));
		target_list_remove(all, t);
	}
}

static void on_age(evutil_socket_t fd, short what, void *data)
{
	struct target_list *all = data;
	uint64_t now = now_ns(CLOCK_MONOTONIC), age = all->o.settings->history_seconds * 1000000000u;
	struct target *t;

	TAILQ_FOREACH (t, &all->list, link) {
		target_settle_late(t);
		if (!t->listed)
			continue;
		if (t->ring.state == RING_GONE && now - t->gone_ns > age)
			target_list_remove(all, t);
		else
			ledger_settle(&t->rings, t->ring.source->ops->memory(t->ring.source));
	}
}

void target_list_update(struct target_list *all)
{
	struct target *t;

	on_age(-1, EV_TIMEOUT, all);
	TAILQ_FOREACH (t, &all->list, link)
		if (t->ring.state == RING_GONE)
			target_list_limit_history(all, t->owner);
}

int target_list_new(const struct target_list_options *options, struct target_list **ret)
{
	struct timeval period = { AGE_SECONDS, 0 };
	struct target_list *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->o = *options;
	TAILQ_INIT(&all->list);
	STAILQ_INIT(&all->leaving);
	all->age = event_new(options->base, -1, EV_PERSIST, on_age, all);
	all->sweep = event_new(options->base, -1, 0, on_sweep, all);
	if (!all->age || !all->sweep || event_add(all->age, &period) < 0) {
		target_list_free(all);
		return -ENOMEM;
	}
	*ret = all;
	return 0;
}

struct target_list *target_list_free(struct target_list *all)
{
	struct target *t;

	if (!all)
		return NULL;
	while ((t = TAILQ_FIRST(&all->list))) {
		TAILQ_REMOVE(&all->list, t, link);
		target_unref(t);
	}
	on_sweep(-1, EV_TIMEOUT, all);
	if (all->age)
		event_free(all->age);
	if (all->sweep)
		event_free(all->sweep);
	free(all);
	return NULL;
}

const struct target_head *target_list_all(const struct target_list *all)
{
	return &all->list;
}

struct target *target_list_find(const struct target_list *all, pid_t pid, uid_t uid)
{
	struct target *t, *ended = NULL;

	TAILQ_FOREACH (t, &all->list, link) {
		if (t->pid != pid)
			continue;
		if (t->ring.state != RING_GONE)
			return t;
		if (policy_owns(uid, t->owner))
			ended = t;
	}
	return ended;
}
