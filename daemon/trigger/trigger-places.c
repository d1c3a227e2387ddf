/* SPDX-License-Identifier: MIT */
/* The places of a trigger, in the list of its source. */
#include "config.h"

#include <string.h>

#include "daemon/daemon.h"
#include "daemon/trigger/trigger-private.h"
#include "lib/base/escape.h"
#include "lib/code/syscalls.h"

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

static int add_place(struct trigger *t, const struct trigger_place *p, struct reason *why)
{
	if (t->n_places == TRIGGER_PLACES_MAX)
		return reason_set(why, -E2BIG, "%s: it has more than %d places in the process", esc(t->condition),
				  TRIGGER_PLACES_MAX);
	t->places[t->n_places++] = *p;
	return 0;
}

/* Adds the places of a condition: those given, or the number of its event. */
static int derive(struct trigger *t, unsigned condition, const struct trigger_place *given, size_t n,
		  struct reason *why)
{
	const struct trigger_condition *c = &t->spec.conditions[condition];
	struct trigger_place place = { .place = c->number, .condition = condition };
	size_t first = t->n_places;
	int rc = 0;

	switch (c->event) {
	case TRIGGER_SYSCALL:
		rc = syscall_number(c->value);
		if (rc < 0)
			return reason_set(why, -EOPNOTSUPP, "there is no system call \"%s\" on arm64", esc(c->value));
		place.place = (uint64_t)rc;
		return add_place(t, &place, why);
	case TRIGGER_OFF_CPU:
	case TRIGGER_SIGNAL:
	case TRIGGER_ADDRESS:
		return add_place(t, &place, why);
	case TRIGGER_FUNCTION:
	case TRIGGER_LINE:
		for (size_t i = 0; i < n && rc == 0; i++)
			if (given[i].condition == condition)
				rc = add_place(t, &given[i], why);
		if (rc == 0 && t->n_places == first)
			rc = reason_set(why, -EOPNOTSUPP, "%s %s: no place in the process was given",
					c->event == TRIGGER_LINE ? "line" : "function", esc(c->value));
		return rc;
	default:
		return 0;
	}
}

static bool watches_go_calls(const struct trigger *t, const struct trigger_condition *c)
{
	for (size_t i = 0; c->timed && i < t->n_places; i++)
		if (&t->spec.conditions[t->places[i].condition] == c && t->places[i].ends.go)
			return true;
	return false;
}

static int check_source(const struct trigger *t, const struct trigger_condition *c, struct reason *why)
{
	bool code = trigger_condition_needs_symbols(c) || c->event == TRIGGER_ADDRESS;
	const struct capture_watching *w = watching_of(t);
	uint32_t limits = 0;

	if (c->event == TRIGGER_OOM && !t->all->o.daemon->ooms)
		return reason_set(
		    why, -EOPNOTSUPP,
		    "oom: csightd cannot read the kernel's log, which names the processes that the "
		    "out-of-memory killer has ended; run it with CAP_SYSLOG, or csight-kernel beside it, in "
		    "the initial PID namespace");
	if (trigger_condition_of_end(c) || c->event == TRIGGER_PERIOD)
		return 0;
	if (!w)
		return reason_set(why, -EOPNOTSUPP,
				  "only programs under the emulated trace unit can be watched for this");
	w->applied(t->watched->target->ring.source, &limits);
	if (code && limits & EMU_CANNOT_RETRANSLATE)
		return reason_set(why, -EOPNOTSUPP, "this QEMU cannot translate code again; use version 7.2");
	if (watches_go_calls(t, c) && limits & EMU_CANNOT_GO_CALLS)
		return reason_set(why, -EOPNOTSUPP,
				  "the program runs under an older csight-etm.so, which cannot measure "
				  "calls of goroutines; start it again");
	if ((c->timed && c->longer_than == TRIGGER_P99 && limits & EMU_CANNOT_P99) ||
	    (c->event == TRIGGER_OFF_CPU && limits & EMU_CANNOT_OFF_CPU))
		return reason_set(why, -EOPNOTSUPP, "the program runs under an older csight-etm.so; start it again");
	if ((c->timed || c->event == TRIGGER_SIGNAL) && limits & EMU_CANNOT_READ_REGISTERS)
		return reason_set(why, -EOPNOTSUPP, "this QEMU does not export its registers; use version 7.2");
	return 0;
}

static int check_join(const struct trigger *t, struct reason *why)
{
	uint32_t limits = 0;

	watching_of(t)->applied(t->watched->target->ring.source, &limits);
	if (limits & EMU_CANNOT_JOIN)
		return reason_set(why, -EOPNOTSUPP,
				  "and: the program runs under an older csight-etm.so; start it again");
	return 0;
}

int trigger_places_derive(struct trigger *t, const struct trigger_place *given, size_t n, struct reason *why)
{
	int rc = 0;

	for (unsigned i = 0; i < trigger_spec_count(&t->spec) && rc == 0; i++) {
		rc = derive(t, i, given, n, why);
		if (rc == 0)
			rc = check_source(t, &t->spec.conditions[i], why);
	}
	if (rc == 0 && t->spec.all)
		rc = check_join(t, why);
	return rc;
}

/* Returns what the source must watch for a place. */
static struct emu_watch watch_of(const struct trigger *t, const struct trigger_place *p)
{
	static const enum emu_watch_kind kinds[] = {
		[TRIGGER_FUNCTION] = EMU_WATCH_POINT,  [TRIGGER_ADDRESS] = EMU_WATCH_POINT,
		[TRIGGER_LINE] = EMU_WATCH_POINT,      [TRIGGER_SYSCALL] = EMU_WATCH_SYSCALL,
		[TRIGGER_OFF_CPU] = EMU_WATCH_OFF_CPU, [TRIGGER_SIGNAL] = EMU_WATCH_SIGNAL,
		[TRIGGER_OOM] = EMU_WATCH_NONE,
	};
	const struct trigger_condition *c = &t->spec.conditions[p->condition];
	enum emu_watch_kind call = p->ends.go ? EMU_WATCH_GO_CALL : EMU_WATCH_CALL;

	return (struct emu_watch){ .kind = c->event == TRIGGER_FUNCTION && c->timed ? call : kinds[c->event],
				   .trigger = t->number,
				   .longer_than = c->longer_than == TRIGGER_P99 ? EMU_LONGER_THAN_P99 : c->longer_than,
				   .place = p->place,
				   .size = p->size,
				   .inode = p->inode,
				   .major = p->major,
				   .minor = p->minor };
}

/* Returns the join of all conditions, for the source's list. The places have their slots already. */
static struct emu_watch join_of(const struct trigger *t)
{
	struct emu_watch w = { .kind = EMU_WATCH_JOIN, .trigger = t->number, .longer_than = t->spec.within };

	_Static_assert((int)TRIGGER_CONDITIONS_MAX == (int)EMU_EVENTS_MAX, "each condition is an event");
	for (size_t i = 0; i < t->n_places; i++)
		w.events[t->places[i].condition] |= 1ull << t->slots[i];
	return w;
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

void trigger_places_clear(struct trigger *t)
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

int trigger_places_set(struct trigger *t)
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
	if (rc == 0 && t->spec.all)
		rc = find_free_slot(t->watched, &t->slots[t->n_slots]);
	if (rc == 0 && t->spec.all) {
		t->watched->list.watches[t->slots[t->n_slots]] = join_of(t);
		t->n_slots++;
	}
	if (rc == 0 && t->n_slots)
		rc = watching_of(t)->counts(t->watched->target->ring.source, counts);
	for (size_t i = 0; i < t->n_slots; i++)
		t->since[i] = counts[t->slots[i]];
	if (rc < 0)
		trigger_places_clear(t);
	else
		watched_target_changed(t->watched);
	return rc;
}

int trigger_places_find(const struct trigger *t, uint32_t slot, unsigned *ret)
{
	for (size_t i = 0; i < t->n_slots && i < t->n_places; i++)
		if (t->slots[i] == slot) {
			*ret = t->places[i].condition;
			return 0;
		}
	return -ENOENT;
}

void trigger_places_hold(struct trigger *t, uint64_t least)
{
	/* The source applies a join's, and leaves those of its places alone. */
	for (size_t i = 0; i < t->n_slots; i++)
		watching_of(t)->hold(t->watched->target->ring.source, t->slots[i], least);
}

void trigger_places_add_hits(struct trigger *t, size_t slot, uint64_t hits)
{
	if (slot < t->n_places)
		t->condition_hits[t->places[slot].condition] += hits;
	if (!t->spec.all || slot >= t->n_places)
		t->hits += hits;
}

void trigger_count(struct trigger *t)
{
	struct emu_watch_count counts[EMU_WATCHES_MAX];

	if (!t->n_slots || watching_of(t)->counts(t->watched->target->ring.source, counts) < 0)
		return;
	for (size_t i = 0; i < t->n_slots; i++) {
		const struct emu_watch_count *is = &counts[t->slots[i]];
		struct emu_watch_count *was = &t->since[i];

		trigger_places_add_hits(t, i, atomic_load(&is->hits) - atomic_load(&was->hits));
		t->measured += atomic_load(&is->measured) - atomic_load(&was->measured);
		t->unknown += atomic_load(&is->unknown) - atomic_load(&was->unknown);
		*was = *is;
	}
}

bool trigger_state_of(const struct trigger *t, size_t i, struct capture_watch_state *ret)
{
	if (i >= t->n_slots || i >= t->n_places)
		return false;
	watching_of(t)->state(t->watched->target->ring.source, t->watched->list.watches[t->slots[i]].kind, ret);
	return true;
}
