/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <sys/wait.h>

#include "daemon/daemon.h"
#include "daemon/trigger/trigger-private.h"
#include "daemon/wire.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/code/syscalls.h"

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

static const struct capture_watching *watching_of(const struct trigger *t)
{
	return t->watched->target->ring.source->ops->watching;
}

static int syscall_number(const char *name)
{
#define X(number, text)               \
	if (strcmp(name, #text) == 0) \
		return number;
	SYSCALLS(X)
#undef X
	return -ENOENT;
}

void trigger_count(struct trigger *t)
{
	struct emu_watch_count counts[EMU_WATCHES_MAX];

	if (!t->n_slots || watching_of(t)->counts(t->watched->target->ring.source, counts) < 0)
		return;
	for (size_t i = 0; i < t->n_slots; i++) {
		const struct emu_watch_count *is = &counts[t->slots[i]];
		struct emu_watch_count *was = &t->since[i];

		t->hits += atomic_load(&is->hits) - atomic_load(&was->hits);
		t->measured += atomic_load(&is->measured) - atomic_load(&was->measured);
		t->unknown += atomic_load(&is->unknown) - atomic_load(&was->unknown);
		*was = *is;
	}
}

/* Returns what the source must watch for a place. */
static struct emu_watch watch_of(const struct trigger *t, const struct trigger_place *p)
{
	static const enum emu_watch_kind kinds[] = {
		[TRIGGER_FUNCTION] = EMU_WATCH_POINT, [TRIGGER_ADDRESS] = EMU_WATCH_POINT,
		[TRIGGER_LINE] = EMU_WATCH_POINT,     [TRIGGER_SYSCALL] = EMU_WATCH_SYSCALL,
		[TRIGGER_SIGNAL] = EMU_WATCH_SIGNAL,  [TRIGGER_EXIT_STATUS] = EMU_WATCH_NONE,
	};
	bool call = t->spec.event == TRIGGER_FUNCTION && t->spec.timed;

	return (struct emu_watch){ .kind = call ? EMU_WATCH_CALL : kinds[t->spec.event],
				   .trigger = t->number,
				   .longer_than =
				       t->spec.longer_than == TRIGGER_P99 ? EMU_LONGER_THAN_P99 : t->spec.longer_than,
				   .place = p->place,
				   .size = p->size,
				   .inode = p->inode,
				   .major = p->major,
				   .minor = p->minor };
}

bool trigger_state_of(const struct trigger *t, struct capture_watch_state *ret)
{
	if (!t->n_slots)
		return false;
	watching_of(t)->state(t->watched->target->ring.source, t->watched->list.watches[t->slots[0]].kind, ret);
	return true;
}

static int find_free_slot(const struct watched_target *w, uint32_t *ret)
{
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		if (w->list.watches[i].kind == EMU_WATCH_NONE) {
			*ret = i;
			return 0;
		}
	return -E2BIG;
}

static void remove_places(struct trigger *t)
{
	struct capture_watch_list *list = t->watched ? &t->watched->list : NULL;

	if (!t->n_slots)
		return;
	trigger_count(t);
	for (size_t i = 0; i < t->n_slots; i++) {
		memset(&list->watches[t->slots[i]], 0, sizeof(list->watches[0]));
		memset(&list->ends[t->slots[i]], 0, sizeof(list->ends[0]));
	}
	t->n_slots = 0;
	watched_target_changed(t->watched);
}

static int add_places(struct trigger *t)
{
	struct emu_watch_count counts[EMU_WATCHES_MAX] = { 0 };
	int rc = 0;

	for (size_t i = 0; i < t->n_places && rc == 0; i++) {
		rc = find_free_slot(t->watched, &t->slots[i]);
		if (rc < 0)
			break;
		t->watched->list.watches[t->slots[i]] = watch_of(t, &t->places[i]);
		t->watched->list.ends[t->slots[i]] = t->places[i].ends;
		t->n_slots++;
	}
	if (rc == 0 && t->n_slots)
		rc = watching_of(t)->counts(t->watched->target->ring.source, counts);
	for (size_t i = 0; i < t->n_slots; i++)
		t->since[i] = counts[t->slots[i]];
	if (rc < 0)
		remove_places(t);
	else
		watched_target_changed(t->watched);
	return rc;
}

int trigger_enable(struct trigger *t, bool enabled, struct reason *why)
{
	int rc = 0;

	if (t->ended)
		return reason_set(why, -ESRCH, "the process has ended, or its snapshots are all taken");
	if (t->enabled == enabled)
		return 0;
	if (enabled)
		rc = add_places(t);
	else
		remove_places(t);
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
static void drop_ended(struct trigger_list *all, uid_t uid)
{
	struct trigger *t, *oldest = NULL;
	unsigned n = 0;

	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->ended && t->by.uid == uid && TAILQ_EMPTY(&t->calls)) {
			oldest = oldest ? oldest : t;
			n++;
		}
	if (n > ENDED_PER_USER)
		trigger_remove(oldest);
}

static void reply_all(struct trigger *t, json_object *(*make)(struct trigger *t))
{
	struct call *c;

	while ((c = TAILQ_FIRST(&t->calls)))
		call_reply(c, make(t));
}

void trigger_settle_end(struct trigger *t)
{
	bool spent = t->spec.limited && t->spec.max && t->outcomes[TRIGGER_TAKEN] >= t->spec.max;

	if (!t->ended && !spent && t->watched->target->ring.state != RING_GONE)
		return;
	if (!t->ended) {
		remove_places(t);
		t->ended = true;
		t->enabled = false;
		ledger_return(&t->charge);
		trigger_report_change(t->all);
	}
	if (!t->copying)
		t->watched = watched_target_unref(t->watched);
	if (t->pending)
		return;
	reply_all(t, trigger_wire_reply);
	drop_ended(t->all, t->by.uid);
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
		if (t->watched != w || t->reported)
			continue;
		t->reported = true;
		trigger_hold(t);
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
	const struct trigger_hit hit = { .how = h->how,
					 .tid = h->tid,
					 .time_ns = h->time_ns,
					 .monotonic_ns = h->monotonic_ns,
					 .value = h->value,
					 .held = h->held != 0 };

	if (t && t->enabled && t->watched == w)
		trigger_hit(t, &hit);
	else if (h->held)
		watched_target_release(w);
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

static bool ended_as_wanted(const struct trigger *t, const struct ending *e)
{
	switch (t->spec.event) {
	case TRIGGER_EXIT:
		return true;
	case TRIGGER_CRASH:
		return e->known && WIFSIGNALED(e->status);
	case TRIGGER_EXIT_STATUS:
		return e->known && WIFEXITED(e->status) && (uint64_t)WEXITSTATUS(e->status) == t->spec.number;
	default:
		return false;
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
		const struct trigger_hit hit = { .how = EMU_HIT_ENDED,
						 .tid = target->ending.tid,
						 .monotonic_ns = target->gone_ns };

		next = TAILQ_NEXT(t, link);
		if (t->watched != w || t->ended)
			continue;
		trigger_count(t);
		if (t->enabled && !t->hits && ended_as_wanted(t, &target->ending)) {
			t->hits++;
			trigger_hit(t, &hit);
		}
		/* How a process ended may be known only a moment later. */
		if (target->ending.known || !trigger_of_end(t))
			trigger_settle_end(t);
	}
	watched_target_unref(w);
}

static void on_settled(void *data, struct watched_target *w)
{
	trigger_list_ended(data, w->target);
}

/* Derives the places of an event that has a number. */
static int derive_places(struct trigger *t, struct reason *why)
{
	int number;

	switch (t->spec.event) {
	case TRIGGER_SYSCALL:
		number = syscall_number(t->spec.value);
		if (number < 0)
			return reason_set(why, -EOPNOTSUPP, "there is no system call \"%s\" on arm64",
					  esc(t->spec.value));
		t->places[0] = (struct trigger_place){ .place = (uint64_t)number };
		t->n_places = 1;
		return 0;
	case TRIGGER_SIGNAL:
	case TRIGGER_ADDRESS:
		t->places[0] = (struct trigger_place){ .place = t->spec.number };
		t->n_places = 1;
		return 0;
	case TRIGGER_FUNCTION:
	case TRIGGER_LINE:
		return t->n_places
			   ? 0
			   : reason_set(why, -EOPNOTSUPP, "%s: no place in the process was given", esc(t->condition));
	default:
		t->n_places = 0;
		return 0;
	}
}

static int check_source(const struct target *target, const struct trigger *t, struct reason *why)
{
	const struct capture_watching *w = target->ring.source->ops->watching;
	bool code =
	    t->spec.event == TRIGGER_FUNCTION || t->spec.event == TRIGGER_ADDRESS || t->spec.event == TRIGGER_LINE;
	uint32_t limits = 0;

	if (!t->n_places)
		return 0;
	if (!w)
		return reason_set(why, -EOPNOTSUPP,
				  "only programs under the emulated trace unit can be watched for this");
	w->applied(target->ring.source, &limits);
	if (code && limits & EMU_CANNOT_RETRANSLATE)
		return reason_set(why, -EOPNOTSUPP, "this QEMU cannot translate code again; use version 7.2");
	if (t->spec.timed && t->spec.longer_than == TRIGGER_P99 && limits & EMU_CANNOT_P99)
		return reason_set(why, -EOPNOTSUPP, "the program runs under an older csight-etm.so; start it again");
	if ((t->spec.timed || t->spec.event == TRIGGER_SIGNAL) && limits & EMU_CANNOT_READ_REGISTERS)
		return reason_set(why, -EOPNOTSUPP, "this QEMU does not export its registers; use version 7.2");
	return 0;
}

static void trigger_free(struct trigger *t)
{
	if (t->timer)
		event_free(t->timer);
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

	trigger_spec_condition(&q->spec, &condition);
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
	else if ((rc = watched_target_new(all->o.base, all->o.capture_queue, q->target, &t->watched)) < 0)
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
		rc = derive_places(t, why);
	if (rc == 0)
		rc = check_source(q->target, t, why);
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
	memcpy(t->places, q->places, sizeof(t->places));
	t->n_places = q->n_places;
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

	remove_places(t);
	t->ended = true;
	TAILQ_REMOVE(&all->triggers, t, link);
	trigger_report_change(all);
	reply_all(t, trigger_wire_reply);
	trigger_forget_shots(t);
	if (t->watched)
		watched_target_release(t->watched);
	trigger_free(t);
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
	if (!all->attached_tick || trigger_exec_new(options->base, &options->daemon->settings, &all->exec) < 0) {
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
	trigger_exec_free(all->exec);
	free(all);
	return NULL;
}
