/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/failure.h"

void failure_process(struct call *c, enum wire_error error, pid_t pid, const char *reason)
{
	call_error(c, wire_error_str(error), wire_error_of_process(pid, reason));
}

void failure_text(struct call *c, const char *error, const char *key, const char *text)
{
	json_object *o = json_object_new_object();

	json_add_str(o, key, text);
	call_error(c, error, o);
}

void failure_no_snapshot(struct call *c, const char *id)
{
	call_error(c, wire_error_str(WIRE_NO_SUCH_SNAPSHOT), wire_error_of_snapshot(id, NULL));
}

void failure_not_ready(struct call *c, const struct snapshot *s)
{
	call_error(c, wire_error_str(WIRE_NOT_READY), wire_error_of_snapshot(s->id, snapshot_state_str(s->state)));
}
