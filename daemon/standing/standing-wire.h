/* SPDX-License-Identifier: MIT */
/* The JSON of standing targets: the types Rule and StandingTarget of org.csight, and what targets.json has of them. */
#ifndef CSIGHT_DAEMON_STANDING_WIRE_H
#define CSIGHT_DAEMON_STANDING_WIRE_H

#include "daemon/standing/standing.h"
#include "lib/base/json.h"

/* Returns a new object. */
json_object *standing_wire(const struct standing *s);

/* Reads what an object of type Rule says, with texts of o. -EINVAL: the member *ret_bad is invalid. */
int standing_wire_read_rule(json_object *o, struct standing_rule *ret, const char **ret_bad);

/* Returns a new array: what is to be stored of the rules that users set. */
json_object *standing_wire_state(const struct standing_list *all);

/*
 * Adds the rules that an earlier daemon stored. this_boot: it ran since the machine was booted; else what depends on
 * processes is dropped.
 */
void standing_wire_restore(struct standing_list *all, struct audit *audit, json_object *list, bool this_boot);

#endif
