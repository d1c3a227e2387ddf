/* SPDX-License-Identifier: MIT */
/* The methods about triggers, for csight. They are no part of the library's interface. Errors as in csight.h. */
#ifndef CSIGHT_TRIGGER_CALLS_H
#define CSIGHT_TRIGGER_CALLS_H

#include "lib/base/json.h"
#include "lib/csight/csight.h"

/* A reply has "trigger", at first when it is in effect, or "snapshot". A non-zero return ends the trigger. */
typedef int (*trigger_event_fn)(void *userdata, const struct csight_object *reply);

struct trigger_call {
	pid_t pid;
	const char *trigger;    /* as in lib/trigger/trigger-spec.h */
	json_object *places;    /* an array of type Place, or NULL; owned */
	trigger_event_fn event; /* NULL: the trigger remains after the call */
	void *userdata;
};

/* *ret has the trigger in the field "trigger". */
int trigger_call_watch(struct csight *c, const struct trigger_call *call, struct csight_object **ret);

/* Returns the descriptor of the connection on which a call waits, which remains the handle's. */
int trigger_call_fd(const struct csight *c);

/* *ret has the field "triggers". */
int trigger_call_list(struct csight *c, struct csight_object **ret);

int trigger_call_enable(struct csight *c, uint32_t id, bool enabled);
int trigger_call_remove(struct csight *c, uint32_t id);

#endif
