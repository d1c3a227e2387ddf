/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/trigger/trigger-private.h"
#include "daemon/wire.h"

/* A snapshot that a hit takes. */
struct trigger_shot {
	LIST_ENTRY(trigger_shot) link;
	struct trigger_list *all;
	struct trigger *trigger; /* NULL: it has been removed */
	struct watched_target *watched;
	struct audit_actor by;
	json_object *mark;
	char *section; /* of the trigger, or NULL */
	uint64_t value;
	uint64_t taken_before; /* taken_ns of the trigger before this one */
	struct event *delay;   /* of the rule after */
	bool copied;
	char id[SNAPSHOT_ID_SIZE]; /* "": none yet */
};

static void shot_free(struct trigger_shot *s)
{
	LIST_REMOVE(s, link);
	if (s->delay)
		event_free(s->delay);
	json_object_put(s->mark);
	free(s->section);
	watched_target_unref(s->watched);
	free(s);
}

void trigger_forget_shots(struct trigger *t)
{
	struct trigger_shot *s;

	LIST_FOREACH(s, &t->all->shots, link)
	if (s->trigger == t)
		s->trigger = NULL;
}

uint64_t trigger_unsaved(const struct trigger *t, uint64_t *ret_taken_ns)
{
	const struct trigger_shot *s;
	uint64_t n = 0;

	*ret_taken_ns = t->taken_ns;
	/* The newest is the first. When csightd ends, what has been copied is saved. */
	LIST_FOREACH(s, &t->all->shots, link)
	if (s->trigger == t && !*s->id && !(s->copied && t->all->stopping)) {
		*ret_taken_ns = s->taken_before;
		n++;
	}
	return n;
}

/* Returns the shortest of the durations that are kept. */
static struct kept_snapshot *least_kept(struct trigger *t)
{
	struct kept_snapshot *least = NULL;

	for (size_t i = 0; i < t->n_kept; i++)
		if (!least || t->kept[i].value < least->value)
			least = &t->kept[i];
	return least;
}

static uint64_t wait_of(const struct trigger *t, uint64_t now)
{
	return t->spec.every && t->taken_ns && now - t->taken_ns < t->spec.every ? t->spec.every - (now - t->taken_ns)
										 : 0;
}

static bool is_spent(const struct trigger *t)
{
	return t->spec.limited && t->outcomes[TRIGGER_TAKEN] >= t->spec.max;
}

static uint64_t history_of(const struct trigger *t)
{
	uint64_t now = now_ns(CLOCK_REALTIME), armed = t->watched->target->armed_time;

	return now > armed ? now - armed : 0;
}

void trigger_hold(struct trigger *t)
{
	const struct kept_snapshot *shortest = least_kept(t);
	uint64_t least = t->spec.keep && t->n_kept >= t->spec.keep ? shortest->value + 1 : 0;
	uint64_t wait = wait_of(t, now_ns(CLOCK_MONOTONIC));
	struct timeval pause;

	if (!t->n_slots || t->ended || t->copying || t->spec.after || is_spent(t) || t->watched->target->held)
		return;
	if (t->spec.min_history && history_of(t) < t->spec.min_history)
		wait = MAX(wait, t->spec.min_history - history_of(t));
	if (wait) {
		pause = (struct timeval){ (time_t)(wait / 1000000000), (suseconds_t)(wait % 1000000000 / 1000) };
		event_add(t->timer, &pause);
		return;
	}
	trigger_places_hold(t, least);
}

void trigger_list_continued(struct trigger_list *all, const struct target *target)
{
	struct trigger *t;

	if (!all)
		return;
	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->watched && t->watched->target == target)
			trigger_hold(t);
}

void trigger_on_timer(int fd, short what, void *data)
{
	trigger_hold(data);
}

/* A shot that has not begun yet takes what is in the rings later. */
static bool is_waiting(const struct trigger_shot *s)
{
	return !s->copied && !(s->delay && event_pending(s->delay, EV_TIMEOUT, NULL));
}

void trigger_release(struct trigger_list *all, struct watched_target *w)
{
	struct trigger_shot *s;

	LIST_FOREACH(s, &all->shots, link)
	if (s->watched->target == w->target && is_waiting(s))
		return;
	watched_target_release(w);
}

static void copy_ended(struct trigger_shot *s)
{
	s->copied = true;
	if (s->trigger)
		s->trigger->copying--;
}

static void on_phase(void *data, const char *phase)
{
	struct trigger_shot *s = data;

	/* Before this phase, which writes the copy to the spool, the rings have been copied, and go on since then. */
	if (strcmp(phase, "copying") != 0)
		return;
	copy_ended(s);
	if (s->trigger)
		trigger_hold(s->trigger);
}

/*
 * Removes snapshots beyond the rule keep, those of the shortest durations first; not those that users keep, which the
 * rule no longer counts. The trigger must have one pending.
 */
static void trim_kept(struct trigger *t)
{
	while (t->spec.keep && t->n_kept > t->spec.keep) {
		struct kept_snapshot *least = least_kept(t);
		struct snapshot *s = spool_find(t->all->o.spool, least->id);

		/* A snapshot that is being decoded is removed afterwards. */
		if (s && (s->state <= SNAPSHOT_COPYING || s->state == SNAPSHOT_DECODING))
			return;
		*least = t->kept[--t->n_kept];
		if (s && !s->kept)
			spool_expire(t->all->o.spool, s, "keep");
	}
}

static void read_hit(json_object *mark, struct audit_hit *ret)
{
	json_get_i64(mark, "id", &ret->id);
	ret->timed = json_get_u64(mark, "value", &ret->value) == 0;
	json_get_i64(mark, "tid", &ret->tid);
}

/* The trigger itself may have been removed meanwhile. */
static void report_taken(const struct trigger_shot *shot, const struct snapshot *s)
{
	struct audit_hit hit = { .name = shot->section };
	struct audit_object on = { .pid = s->pid, .owner = s->owner, .name = s->name, .snapshot = s->id, .hit = &hit };

	if (json_get_str(shot->mark, "conditions", &on.trigger) < 0)
		json_get_str(shot->mark, "condition", &on.trigger);
	read_hit(shot->mark, &hit);
	audit_done(&shot->by, AUDIT_TAKE, &on);
}

static void report_refused(const struct trigger_shot *shot, const struct ledger_refusal *limit)
{
	const struct target *t = shot->watched->target;
	const struct audit_object on = { .pid = t->pid, .owner = t->owner, .name = t->name };

	audit_limit(&shot->by, AUDIT_TAKE, &on, limit);
}

static void on_request_ended(void *data, enum request_result result, const struct snapshot *s, const char *reason,
			     const struct ledger_refusal *limit)
{
	struct trigger_shot *shot = data;
	struct trigger *t = shot->trigger;

	if (!shot->copied) {
		copy_ended(shot);
		trigger_release(shot->all, shot->watched);
	}
	if (result == REQUEST_DONE) {
		report_taken(shot, s);
		strcpy(shot->id, s->id);
		if (t && t->spec.keep && t->n_kept < ELEMENTS(t->kept)) {
			strcpy(t->kept[t->n_kept].id, s->id);
			t->kept[t->n_kept++].value = shot->value;
			trim_kept(t);
		}
		if (t)
			trigger_report_change(t->all);
		return; /* until it is decoded */
	}
	if (result == REQUEST_OVER_LIMIT)
		report_refused(shot, limit);
	if (t) {
		t->outcomes[TRIGGER_TAKEN]--;
		t->outcomes[result == REQUEST_OVER_LIMIT ? TRIGGER_OVER_LIMIT : TRIGGER_FAILED]++;
		t->pending--;
	}
	shot_free(shot);
	if (!t)
		return;
	trigger_hold(t);
	trigger_settle_end(t);
}

static void begin_shot(struct trigger_shot *s)
{
	struct request_options options = { .uid = s->by.uid,
					   .no_arm = true,
					   .mark = s->mark,
					   .progress = on_phase,
					   .ended = on_request_ended,
					   .data = s };
	struct ledger_refusal limit = { 0 };

	if (s->trigger && s->trigger->spec.group != TRIGGER_ALONE &&
	    trigger_group_begin(s->trigger, &options.annotation, &limit) < 0) {
		on_request_ended(s, REQUEST_OVER_LIMIT, NULL, NULL, &limit);
		return;
	}
	request_begin(s->all->o.requests, s->watched->target, &options);
}

static void on_delay(evutil_socket_t fd, short what, void *data)
{
	begin_shot(data);
}

/* Charges the hit to the user's rate; true if that has no room. A period leaves half of it to events of the process. */
static bool is_over_rate(struct trigger *t, const struct trigger_hit *hit)
{
	struct ledger *l = t->all->o.ledger;

	if (t->spec.conditions[hit->condition].event == TRIGGER_PERIOD &&
	    ledger_left(l, t->by.uid, LEDGER_TRIGGERED) <= ledger_limit(l, t->by.uid, LEDGER_TRIGGERED) / 2)
		return true;
	return ledger_spend(l, t->by.uid, LEDGER_TRIGGERED, 1, NULL) < 0;
}

static enum trigger_outcome decide(struct trigger *t, const struct trigger_hit *hit)
{
	const struct kept_snapshot *least;

	if (t->all->stopping || t->watched->target->ring.state == RING_DISARMED)
		return TRIGGER_FAILED;
	if (is_spent(t))
		return TRIGGER_OVER_MAX;
	if (t->watched->target->held)
		return TRIGGER_OVER_LIMIT;
	if (wait_of(t, now_ns(CLOCK_MONOTONIC)))
		return TRIGGER_TOO_SOON;
	least = least_kept(t);
	if (t->spec.keep && t->n_kept >= t->spec.keep && hit->value <= least->value)
		return TRIGGER_NOT_LONGEST;
	if (t->copying || t->n_kept >= ELEMENTS(t->kept))
		return TRIGGER_BUSY;
	if (history_of(t) < t->spec.min_history)
		return TRIGGER_SHORT_HISTORY;
	return is_over_rate(t, hit) ? TRIGGER_OVER_LIMIT : TRIGGER_TAKEN;
}

static void take(struct trigger *t, const struct trigger_hit *hit, struct trigger_shot *s)
{
	const struct timeval pause = { (time_t)(t->spec.after / 1000000000),
				       (suseconds_t)(t->spec.after % 1000000000 / 1000) };

	s->all = t->all;
	s->trigger = t;
	s->watched = watched_target_ref(t->watched);
	s->by = t->by;
	s->value = hit->value;
	s->mark = trigger_wire_hit(t, hit);
	s->section = t->section ? strdup(t->section) : NULL;
	LIST_INSERT_HEAD(&t->all->shots, s, link);
	s->taken_before = t->taken_ns;
	t->taken_ns = now_ns(CLOCK_MONOTONIC);
	t->copying++;
	t->pending++;
	/* The source has disarmed only the place that was hit: another one must not freeze the rings during the copy.
	 */
	trigger_places_hold(t, UINT64_MAX);
	trigger_report_change(t->all);
	if (t->spec.after)
		s->delay = evtimer_new(t->all->o.base, on_delay, s);
	if (!s->delay || event_add(s->delay, &pause) < 0)
		begin_shot(s);
}

void trigger_hit(struct trigger *t, const struct trigger_hit *hit)
{
	enum trigger_outcome outcome = decide(t, hit);
	struct trigger_shot *s = outcome == TRIGGER_TAKEN ? calloc(1, sizeof(*s)) : NULL;

	if (outcome == TRIGGER_TAKEN && !s)
		outcome = TRIGGER_FAILED;
	t->longest = MAX(t->longest, hit->value);
	t->outcomes[outcome]++;
	if (s)
		take(t, hit, s);
	else if (hit->held)
		watched_target_release(t->watched);
	if (!s && hit->held)
		trigger_hold(t);
}

static void run_command(const struct trigger_shot *shot, const struct snapshot *s)
{
	const struct trigger *t = shot->trigger;
	struct audit_hit hit = { 0 };

	read_hit(shot->mark, &hit);
	trigger_exec_run(shot->all->exec, &(struct trigger_exec_hit){ .uid = shot->by.uid,
								      .command = t->spec.exec,
								      .snapshot = s->id,
								      .state = snapshot_state_str(s->state),
								      .pid = s->pid,
								      .id = t->number,
								      .name = t->section,
								      .condition = t->condition,
								      .timed = hit.timed,
								      .value = hit.value,
								      .tid = hit.tid });
}

/* Sends a snapshot to the callers that wait for them. Several may settle before a client has read the first. */
static void report_settled(struct trigger *t, const struct snapshot *s)
{
	json_object *reply = wire_snapshot_reply(s, spool_path(t->all->o.spool));
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };
	struct call *c, *next;

	varlink_put_reply(&b, reply, true);
	json_object_put(reply);
	if (buf_error(&b) < 0)
		return;
	for (c = TAILQ_FIRST(&t->calls); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->more && call_event(c, &b) < 0)
			call_error(c, wire_error_str(WIRE_TOO_SLOW), NULL);
	}
}

void trigger_list_snapshot_changed(struct trigger_list *all, const struct snapshot *snapshot,
				   enum snapshot_change change)
{
	struct trigger_shot *s;
	struct trigger *t;

	if (!all || change == SNAPSHOT_PROGRESSED)
		return;
	LIST_FOREACH(s, &all->shots, link)
	if (strcmp(s->id, snapshot->id) == 0)
		break;
	if (!s)
		return;
	t = s->trigger;
	if (t && t->spec.exec[0] && change == SNAPSHOT_SETTLED)
		run_command(s, snapshot);
	shot_free(s);
	if (!t)
		return;
	if (change == SNAPSHOT_SETTLED)
		report_settled(t, snapshot);
	trim_kept(t);
	t->pending--;
	trigger_settle_end(t);
}
