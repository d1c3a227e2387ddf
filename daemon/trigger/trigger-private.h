/* SPDX-License-Identifier: MIT */
/* The list of triggers, and the functions that the files of this room share. */
#ifndef CSIGHT_DAEMON_TRIGGER_PRIVATE_H
#define CSIGHT_DAEMON_TRIGGER_PRIVATE_H

#include "daemon/trigger/trigger-exec.h"
#include "daemon/trigger/trigger-wire.h"
#include "daemon/trigger/trigger.h"
#include "daemon/trigger/watched-target.h"

LIST_HEAD(trigger_shots, trigger_shot);

struct trigger_list {
	struct trigger_list_options o;
	struct trigger_head triggers;
	struct trigger_shots shots; /* snapshots that triggers have requested, or are about to */
	struct trigger_exec *exec;
	struct event *attached_tick;
	struct event *sweep; /* drops triggers that have ended */
	uint32_t last_number;
	bool stopping;
};

/* Decides whether a hit takes a snapshot, begins that, and counts the outcome. */
void trigger_hit(struct trigger *t, const struct trigger_hit *hit);

/* Makes the next hit freeze the rings, if the rules permit a snapshot of it now; else sets the timer to try again. */
void trigger_hold(struct trigger *t);
void trigger_on_timer(int fd, short what, void *data);

/*
 * Returns how many of the trigger's snapshots are requested and may still fail, or would be lost with csightd;
 * *ret_taken_ns: the trigger's taken_ns before the first of them.
 */
uint64_t trigger_unsaved(const struct trigger *t, uint64_t *ret_taken_ns);

/* Lets the rings of a target continue, unless the copy of a hit is still to be made. */
void trigger_release(struct trigger_list *all, struct watched_target *w);

/* The trigger is being freed; its shots continue without it. */
void trigger_forget_shots(struct trigger *t);

static inline void trigger_report_change(const struct trigger_list *all)
{
	if (all->o.changed)
		all->o.changed(all->o.data);
}

/*
 * Derives the places of all conditions: those given for functions and lines, the numbers of other events. -EOPNOTSUPP:
 * the target cannot watch this; -E2BIG: these are too many; both with the reason.
 */
int trigger_places_derive(struct trigger *t, const struct trigger_place *given, size_t n, struct reason *why);

/* Adds the places to the list of the source, or removes them. -E2BIG: the list is full. */
int trigger_places_set(struct trigger *t);
void trigger_places_clear(struct trigger *t);

/* Sets *ret to the condition of the place in a slot of the source's list. -ENOENT: that is not of this trigger. */
int trigger_places_find(const struct trigger *t, uint32_t slot, unsigned *ret);

/* Adds hits of t->slots[slot] to those of its condition and of the trigger; with and, only the join's to the latter. */
void trigger_places_add_hits(struct trigger *t, size_t slot, uint64_t hits);

/* Makes the next hit of each place, or with and of their join, freeze the rings if it has this value at least;
 * UINT64_MAX: none does. */
void trigger_places_hold(struct trigger *t, uint64_t least);

/* Records the control groups of the trigger's process, if the rule group depends on them. -ESRCH, -ENOMEM. */
int trigger_group_note(struct trigger *t);

/*
 * Freezes the rings of the trigger's group, its own process first, and requests snapshots of the other processes. *ret:
 * the annotation for the snapshot of its own. -EDQUOT: the user's limit refused it.
 */
int trigger_group_begin(struct trigger *t, struct annotation *ret, struct ledger_refusal *ret_limit);

/* Start and stop the timer of the condition period, if there is one. -ENOMEM. */
int trigger_period_start(struct trigger *t);
void trigger_period_stop(struct trigger *t);

/* Ends the trigger if it can have no more hits, and the calls that wait for it once its snapshots are settled. */
void trigger_settle_end(struct trigger *t);

/* True if the trigger waits for the end of its process. */
static inline bool trigger_of_end(const struct trigger *t)
{
	for (unsigned i = 0; i < trigger_spec_count(&t->spec); i++)
		if (trigger_condition_of_end(&t->spec.conditions[i]))
			return true;
	return false;
}

#endif
