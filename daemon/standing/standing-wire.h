/* SPDX-License-Identifier: MIT */
/* The JSON of standing targets: the types Rule and StandingTarget of org.csight, and their part of targets.json. */
#ifndef CSIGHT_DAEMON_STANDING_WIRE_H
#define CSIGHT_DAEMON_STANDING_WIRE_H

#include "daemon/standing/standing.h"
#include "daemon/state-shares.h"
#include "lib/base/json.h"

/* Returns a new object. */
json_object *standing_wire(const struct standing *s);

/* Parses an object of type Rule; the texts remain o's. -EINVAL: the member *ret_bad is invalid. */
int standing_wire_read_rule(json_object *o, struct standing_rule *ret, const char **ret_bad);

/* Announces to shares how many bytes of targets.json each rule needs: 0 for one of the configuration. */
void standing_wire_measure(const struct standing_list *all, struct state_shares *shares);

/* Returns a new array for targets.json: the rules that users have set, as far as they fit in the shares. */
json_object *standing_wire_state(const struct standing_list *all, struct state_shares *shares);

/*
 * Adds the rules that an earlier daemon stored. this_boot: that daemon ran since the machine was booted; else rules
 * that name a process are dropped.
 */
void standing_wire_restore(struct standing_list *all, struct audit *audit, json_object *list, bool this_boot);

#endif
