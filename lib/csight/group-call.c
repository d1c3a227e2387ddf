/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/csight/csight-internal.h"
#include "lib/csight/group-call.h"

int group_call_snapshot(struct csight *c, const struct group_call *call, struct csight_object **ret)
{
	json_object *o, *with;
	int rc = csight_snapshot_parameters(c, call->pids[0], call->options, &o);

	if (rc < 0)
		return rc;
	with = json_object_new_array();
	for (size_t i = 1; i < call->n; i++)
		json_array_add(with, json_object_new_int64(call->pids[i]));
	json_add(o, "with", with);
	json_add_bool(o, "noWait", true);
	return csight_call_for_field(c, (struct csight_request){ "org.csight.Snapshot", o, true, NULL, NULL },
				     "snapshot", ret);
}
