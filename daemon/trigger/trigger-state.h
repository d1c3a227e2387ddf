/* SPDX-License-Identifier: MIT */
/* Triggers in the state file (daemon/state.h), where they outlast the daemon. On the loop's thread. */
#ifndef CSIGHT_DAEMON_TRIGGER_STATE_H
#define CSIGHT_DAEMON_TRIGGER_STATE_H

#include "daemon/state-shares.h"
#include "daemon/trigger/trigger.h"

/*
 * Returns false if a target has no trigger that remains without its caller; else *ret is a new array of those within
 * the shares.
 */
bool trigger_state_write(struct trigger_list *all, const struct target *t, struct state_shares *shares,
			 json_object **ret);

/* Announces the triggers that are written. */
void trigger_state_measure(const struct trigger_list *all, struct state_shares *shares);

/* Reserves the numbers of the triggers in the list of an earlier daemon: new triggers get greater ones. */
void trigger_state_reserve(struct trigger_list *all, json_object *list);

/*
 * Adds the triggers of a list to a target, each if its user may still act on the process, and logs those that cannot
 * be added. Their counts continue.
 */
void trigger_state_read(struct trigger_list *all, const struct settings *settings, struct audit *audit,
			struct target *t, json_object *list);

#endif
