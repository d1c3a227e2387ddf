/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <sys/wait.h>

#include "daemon/daemon.h"
#include "daemon/service.h"
#include "daemon/trigger/trigger-private.h"
#include "daemon/wire.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum { ATTACHED_TICK_MS = 200, ENDED_PER_USER = 16 };

static const char *const outcomes[] = {
	[TRIGGER_TAKEN] = "taken",
	[TRIGGER_OVER_MAX] = "max",
	[TRIGGER_TOO_SOON] = "every",
	[TRIGGER_BUSY] = "busy",
	[TRIGGER_SHORT_HISTORY] = "min-history",
	[TRIGGER_NOT_LONGEST] = "keep",
	[TRIGGER_OVER_LIMIT] = "limit",
	[TRIGGER_FAILED] = "failed",
};

const char *trigger_outcome_str(enum trigger_outcome outcome)
{
	return outcomes[outcome];
}

const struct trigger_head *trigger_list_all(const struct trigger_list *all)
{
	return &all->triggers;
}

struct trigger *trigger_find(const struct trigger_list *all, uint32_t number)
{
	struct trigger *t;

	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->number == number)
			return t;
	return NULL;
}

int trigger_enable(struct trigger *t, bool enabled, struct reason *why)
{
	int rc = 0;

	if (t->ended)
		return reason_set(why, -ESRCH, "the process has ended or was disarmed, or its snapshots are all taken");
	if (t->enabled == enabled)
		return 0;
	if (enabled) {
		rc = trigger_period_start(t);
		if (rc < 0)
			return reason_set(why, rc, "out of memory");
		rc = trigger_places_set(t);
	} else {
		trigger_places_clear(t);
	}
	if (!enabled || rc < 0)
		trigger_period_stop(t);
	if (rc < 0)
		return reason_set(why, rc, "process %d watches %d places already", (int)t->pid, EMU_WATCHES_MAX);
	t->enabled = enabled;
	t->reported = !enabled;
	trigger_report_change(t->all);
	return 0;
}

static void on_attached_tick(evutil_socket_t fd, short what, void *data)
{
	struct trigger_list *all = data;
	struct trigger *t, *next;

	for (t = TAILQ_FIRST(&all->triggers); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->attached && TAILQ_EMPTY(&t->calls))
			trigger_remove(t);
	}
	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->attached)
			return;
	event_del(all->attached_tick);
}

static void watch_attached(struct trigger_list *all)
{
	const struct timeval tick = { 0, ATTACHED_TICK_MS * 1000 };

	if (!event_pending(all->attached_tick, EV_TIMEOUT, NULL))
		event_add(all->attached_tick, &tick);
}

/* Of triggers that have ended, a user keeps a few, for their counts. */
static void drop_ended(struct trigger_list *all, uid_t account)
{
	struct trigger *t, *oldest = NULL;
	unsigned n = 0;

	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->ended && TAILQ_EMPTY(&t->calls) && ledger_owner(all->o.ledger, t->by.uid) == account) {
			oldest = oldest ? oldest : t;
			n++;
		}
	if (n > ENDED_PER_USER)
		trigger_remove(oldest);
}

static struct trigger *find_settled(const struct trigger_list *all)
{
	struct trigger *t;

	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->settled)
			return t;
	return NULL;
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
	struct trigger_list *all = data;
	struct trigger *t;

	while ((t = find_settled(all))) {
		t->settled = false;
		drop_ended(all, ledger_owner(all->o.ledger, t->by.uid));
	}
}

static void reply_all(struct trigger *t, json_object *(*make)(struct trigger *t))
{
	struct call *c;

	while ((c = TAILQ_FIRST(&t->calls)))
		call_reply(c, make(t));
}

/* The target of a process that is armed again is another one. */
static bool has_left(const struct target *t)
{
	return t->ring.state == RING_GONE || !t->listed;
}

/* True if the end of the process may be a hit, and trigger_list_ended() has not found out yet. */
static bool end_is_open(const struct trigger *t)
{
	const struct target *target = t->watched->target;

	return trigger_of_end(t) && !t->end_hit && !target->replaced &&
	       (t->watched->settling || (!target->ending.known && target->listed));
}

void trigger_settle_end(struct trigger *t)
{
	uint64_t taken_ns, taken = t->outcomes[TRIGGER_TAKEN] - trigger_unsaved(t, &taken_ns);
	bool spent = t->spec.limited && t->spec.max && taken >= t->spec.max;

	if (!t->ended && !spent && (!has_left(t->watched->target) || end_is_open(t)))
		return;
	if (!t->ended) {
		trigger_places_clear(t);
		t->ended = true;
		t->enabled = false;
		trigger_period_stop(t);
		ledger_return(&t->charge);
		trigger_report_change(t->all);
	}
	if (!t->copying)
		t->watched = watched_target_unref(t->watched);
	if (t->pending)
		return;
	reply_all(t, trigger_wire_reply);
	/* The caller may still use triggers. */
	t->settled = true;
	event_active(t->all->sweep, EV_TIMEOUT, 0);
}

/* The source cannot watch the list: removes or disables the triggers that have not been in effect yet. */
static void fail_new(struct trigger_list *all, const struct watched_target *w, const struct reason *why)
{
	struct trigger *t, *next;
	struct call *c;

	for (t = TAILQ_FIRST(&all->triggers); t; t = next) {
		struct reason ignored = { "" };
		bool waited = !TAILQ_EMPTY(&t->calls);

		next = TAILQ_NEXT(t, link);
		if (t->watched != w || t->reported || !t->n_slots)
			continue;
		if (ledger_may_log(all->o.ledger, t->by.uid))
			log_notice("trigger %u of process %d cannot be watched: %s", t->number, (int)t->pid, why->text);
		while ((c = TAILQ_FIRST(&t->calls)))
			call_error(c, wire_error_str(WIRE_INVALID_TRIGGER), wire_error_of_configuration(why));
		if (waited)
			trigger_remove(t);
		else
			trigger_enable(t, false, &ignored);
	}
}

static void on_applied(void *data, struct watched_target *w, const struct reason *failure)
{
	struct trigger_list *all = data;
	struct trigger *t, *next;
	struct call *c, *following;

	if (failure) {
		fail_new(all, w, failure);
		return;
	}
	for (t = TAILQ_FIRST(&all->triggers); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->watched != w)
			continue;
		/* The new list has no hit that freezes the rings. */
		if (t->enabled)
			trigger_hold(t);
		if (t->reported)
			continue;
		t->reported = true;
		for (c = TAILQ_FIRST(&t->calls); c; c = following) {
			following = TAILQ_NEXT(c, link);
			if (c->more)
				call_progress(c, trigger_wire_reply(t));
			else
				call_reply(c, trigger_wire_reply(t));
		}
	}
}

static void on_hit(void *data, struct watched_target *w, const struct emu_hit *h)
{
	struct trigger_list *all = data;
	struct trigger *t = trigger_find(all, h->trigger);
	struct trigger_hit hit = { .how = h->how,
				   .tid = h->tid,
				   .time_ns = h->time_ns,
				   .monotonic_ns = h->monotonic_ns,
				   .value = h->value,
				   .held = h->held != 0 };

	if (t && t->enabled && t->watched == w && trigger_places_find(t, h->watch, &hit.condition) == 0) {
		t->completed[hit.condition]++;
		trigger_hit(t, &hit);
	} else if (h->held) {
		watched_target_release(w);
	}
}

static struct watched_target *find_watched(struct trigger_list *all, const struct target *target)
{
	struct trigger *t;

	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->watched && t->watched->target == target)
			return t->watched;
	return NULL;
}

void trigger_list_hits(void *data, struct target *target)
{
	struct trigger_list *all = data;
	struct watched_target *w = all ? find_watched(all, target) : NULL;

	if (w)
		watched_target_drain(w);
}

static bool ended_as_wanted(const struct trigger_condition *c, const struct ending *e)
{
	switch (c->event) {
	case TRIGGER_EXIT:
		return true;
	case TRIGGER_CRASH:
		return e->known && WIFSIGNALED(e->status);
	case TRIGGER_OOM:
		return e->known && e->oom;
	case TRIGGER_EXIT_STATUS:
		return e->known && WIFEXITED(e->status) && (uint64_t)WEXITSTATUS(e->status) == c->number;
	default:
		return false;
	}
}

/* The end of a process is one hit, of the first condition that it meets. */
static void hit_end(struct trigger *t, const struct target *target)
{
	struct trigger_hit hit = { .how = EMU_HIT_ENDED, .tid = target->ending.tid, .monotonic_ns = target->gone_ns };

	for (; hit.condition < trigger_spec_count(&t->spec); hit.condition++)
		if (ended_as_wanted(&t->spec.conditions[hit.condition], &target->ending)) {
			t->end_hit = true;
			t->hits++;
			t->condition_hits[hit.condition]++;
			trigger_hit(t, &hit);
			return;
		}
}

void trigger_list_ended(void *data, struct target *target)
{
	struct trigger_list *all = data;
	struct watched_target *w = all ? find_watched(all, target) : NULL;
	struct trigger *t, *next;

	if (!w)
		return;
	watched_target_ref(w);
	/* The last hits of a process that has just ended may be unread. */
	if (!watched_target_settle(w)) {
		watched_target_unref(w);
		return;
	}
	for (t = TAILQ_FIRST(&all->triggers); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->watched != w || t->ended)
			continue;
		trigger_count(t);
		if (target->ring.state == RING_GONE && t->enabled && !t->end_hit && !target->replaced)
			hit_end(t, target);
		/* How a process ended may be known only a moment later. */
		if (target->ending.known || target->replaced || !target->listed || !trigger_of_end(t))
			trigger_settle_end(t);
	}
	watched_target_unref(w);
}

static void on_settled(void *data, struct watched_target *w)
{
	trigger_list_ended(data, w->target);
}

static void trigger_free(struct trigger *t)
{
	if (t->timer)
		event_free(t->timer);
	if (t->period)
		event_free(t->period);
	watched_target_unref(t->watched);
	ledger_return(&t->charge);
	free(t->condition);
	free(t->groups);
	free(t->section);
	free(t->rules);
	free(t->name);
	free(t);
}

static int fill(struct trigger *t, const struct trigger_request *q, struct reason *why, struct ledger_refusal *refusal)
{
	_cleanup_buf_ struct buf condition = { 0 }, rules = { 0 };
	struct trigger_list *all = t->all;
	int rc;

	trigger_spec_append_text(&q->spec, &condition);
	trigger_spec_rules(&q->spec, &rules);
	if (buf_error(&condition) < 0 || buf_error(&rules) < 0)
		return -ENOMEM;
	t->name = strdup(q->target->name);
	t->condition = (char *)TAKE_PTR(condition.data);
	t->rules = (char *)TAKE_PTR(rules.data);
	t->timer = evtimer_new(all->o.base, trigger_on_timer, t);
	t->watched = find_watched(all, q->target);
	if (t->watched)
		watched_target_ref(t->watched);
	else if ((rc = watched_target_new(all->o.base, all->o.turns, all->o.capture_queue, q->target,
					  ledger_owner(all->o.ledger, q->target->owner), &t->watched)) < 0)
		return rc;
	t->watched->hit = on_hit;
	t->watched->applied = on_applied;
	t->watched->settled = on_settled;
	t->watched->data = all;
	t->section = q->section ? strdup(q->section) : NULL;
	if (!t->timer || !t->name || (q->section && !t->section))
		return -ENOMEM;
	rc = trigger_group_note(t);
	if (rc == 0 && q->spec.exec[0] && !q->restored)
		rc = trigger_exec_check(all->exec, t->by.uid, why);
	if (rc == 0)
		rc = trigger_places_derive(t, q->places, q->n_places, why);
	return rc < 0 ? rc : ledger_charge(all->o.ledger, t->by.uid, LEDGER_TRIGGERS, 1, &t->charge, refusal);
}

/* Keeps the list in order of numbers: a trigger of an earlier daemon is restored after others were added. */
static void insert_trigger(struct trigger_list *all, struct trigger *t)
{
	struct trigger *at;

	TAILQ_FOREACH_REVERSE (at, &all->triggers, trigger_head, link)
		if (at->number < t->number)
			break;
	if (at)
		TAILQ_INSERT_AFTER(&all->triggers, at, t, link);
	else
		TAILQ_INSERT_HEAD(&all->triggers, t, link);
}

int trigger_add(struct trigger_list *all, const struct trigger_request *q, struct trigger **ret, struct reason *why,
		struct ledger_refusal *ret_refusal)
{
	struct trigger *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->all = all;
	t->number = ++all->last_number;
	t->by = *q->by;
	t->pid = q->target->pid;
	t->spec = q->spec;
	t->attached = q->attached;
	TAILQ_INIT(&t->calls);
	rc = fill(t, q, why, ret_refusal);
	if (rc == 0)
		rc = trigger_enable(t, true, why);
	if (rc < 0) {
		trigger_free(t);
		return rc;
	}
	insert_trigger(all, t);
	if (ledger_may_log(all->o.ledger, t->by.uid))
		log_info("trigger %u of uid %u watches process %d: %s", t->number, t->by.uid, (int)q->target->pid,
			 esc(t->condition));
	trigger_report_change(all);
	*ret = t;
	return 0;
}

void trigger_wait(struct trigger *t, struct call *c)
{
	call_wait(c, &t->calls, t);
	if (t->attached)
		watch_attached(t->all);
}

void trigger_remove(struct trigger *t)
{
	struct trigger_list *all = t->all;

	trigger_places_clear(t);
	t->ended = true;
	TAILQ_REMOVE(&all->triggers, t, link);
	trigger_report_change(all);
	reply_all(t, trigger_wire_reply);
	trigger_forget_shots(t);
	if (t->watched)
		trigger_release(all, t->watched);
	trigger_free(t);
}

void trigger_list_update(struct trigger_list *all, const struct service *s)
{
	struct trigger *t;
	struct call *c, *next;

	if (!all)
		return;
	TAILQ_FOREACH (t, &all->triggers, link)
		for (c = TAILQ_FIRST(&t->calls); c; c = next) {
			next = TAILQ_NEXT(c, link);
			if (service_denies(s, c->connection))
				call_error(c, VARLINK_PERMISSION_DENIED, NULL);
		}
}

void trigger_list_stop(struct trigger_list *all)
{
	struct trigger *t;
	struct call *c;

	all->stopping = true;
	TAILQ_FOREACH (t, &all->triggers, link)
		while ((c = TAILQ_FIRST(&t->calls)))
			call_error(c, wire_error_str(WIRE_ENDING), wire_error_of_ending(NULL));
}

int trigger_list_new(const struct trigger_list_options *options, struct trigger_list **ret)
{
	struct trigger_list *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->o = *options;
	TAILQ_INIT(&all->triggers);
	LIST_INIT(&all->shots);
	all->attached_tick = event_new(options->base, -1, EV_PERSIST, on_attached_tick, all);
	all->sweep = event_new(options->base, -1, 0, on_sweep, all);
	if (!all->attached_tick || !all->sweep ||
	    trigger_exec_new(options->base, &options->daemon->settings, &all->exec) < 0) {
		trigger_list_free(all);
		return -ENOMEM;
	}
	*ret = all;
	return 0;
}

struct trigger_list *trigger_list_free(struct trigger_list *all)
{
	struct trigger *t;

	if (!all)
		return NULL;
	while ((t = TAILQ_FIRST(&all->triggers))) {
		TAILQ_REMOVE(&all->triggers, t, link);
		trigger_free(t);
	}
	if (all->attached_tick)
		event_free(all->attached_tick);
	if (all->sweep)
		event_free(all->sweep);
	trigger_exec_free(all->exec);
	free(all);
	return NULL;
}
