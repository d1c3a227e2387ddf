/* SPDX-License-Identifier: MIT */
/* The JSON of triggers (lib/csight/org.csight.varlink): the types Trigger and TriggerHit. */
#ifndef CSIGHT_DAEMON_TRIGGER_WIRE_H
#define CSIGHT_DAEMON_TRIGGER_WIRE_H

#include "daemon/trigger/trigger.h"

/* Returns a new object. */
json_object *trigger_wire(struct trigger *t);

/* The same in a reply with {"trigger": …}. */
json_object *trigger_wire_reply(struct trigger *t);

json_object *trigger_wire_hit(const struct trigger *t, const struct trigger_hit *hit);

/* Returns a new array of type Place, of the places of the trigger. */
json_object *trigger_wire_places_of(const struct trigger *t);

/* Parses an array of type Place. Returns the number of places, or -EINVAL. */
int trigger_wire_places(json_object *list, struct trigger_place ret[TRIGGER_PLACES_MAX]);

#endif
