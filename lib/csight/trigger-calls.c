/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/csight/csight-internal.h"
#include "lib/csight/trigger-calls.h"

int trigger_call_watch(struct csight *c, const struct trigger_call *call, struct csight_object **ret)
{
	json_object *parameters = json_object_new_object(), *reply;
	int rc;

	json_add_i64(parameters, "pid", call->pid);
	json_add_bytes(parameters, "trigger", call->trigger);
	if (call->places)
		json_add(parameters, "places", call->places);
	csight_begin_call(c, "watch process %d", (int)call->pid);
	rc = csight_call_method(c,
				(struct csight_request){ .method = "org.csight.Watch",
							 .parameters = parameters,
							 .more = call->event != NULL,
							 .event = call->event,
							 .userdata = call->userdata },
				&reply);
	if (rc == 0)
		*ret = csight_object_of(reply);
	return rc;
}

int trigger_call_fd(const struct csight *c)
{
	return varlink_stream_fd(c->stream);
}

int trigger_call_list(struct csight *c, struct csight_object **ret)
{
	csight_begin_call(c, "list triggers");
	return csight_call_for_list(c, "org.csight.ListTriggers", "triggers", ret);
}

static json_object *id_parameters(uint32_t id)
{
	json_object *o = json_object_new_object();

	json_add_i64(o, "id", id);
	return o;
}

int trigger_call_enable(struct csight *c, uint32_t id, bool enabled)
{
	json_object *parameters = id_parameters(id);

	json_add_bool(parameters, "enabled", enabled);
	csight_begin_call(c, "%s trigger %u", enabled ? "enable" : "disable", id);
	return csight_call_method(
	    c, (struct csight_request){ .method = "org.csight.SetTrigger", .parameters = parameters }, NULL);
}

int trigger_call_remove(struct csight *c, uint32_t id)
{
	csight_begin_call(c, "remove trigger %u", id);
	return csight_call_method(
	    c, (struct csight_request){ .method = "org.csight.RemoveTrigger", .parameters = id_parameters(id) }, NULL);
}
