/* SPDX-License-Identifier: MIT */
/* Standing targets. */
#include "config.h"

#include "lib/csight/csight-internal.h"

static json_object *rule_json(const struct csight_rule *r)
{
	json_object *o = json_object_new_object();

	if (r->name)
		json_add_bytes(o, "name", r->name);
	if (r->exe)
		json_add_bytes(o, "exe", r->exe);
	if (r->unit)
		json_add_bytes(o, "unit", r->unit);
	if (r->cgroup)
		json_add_bytes(o, "cgroup", r->cgroup);
	if (r->tree)
		json_add_i64(o, "tree", r->tree);
	if (r->has_user)
		json_add_i64(o, "user", r->user);
	return o;
}

int csight_arm_standing(struct csight *c, const struct csight_rule *rule, const struct csight_arm_options *options,
			struct csight_object **ret)
{
	json_object *parameters;
	struct csight_rule known;
	int rc = csight_options_read(&known, sizeof(known), rule);

	csight_begin_call(c, "set a standing target");
	if (rc < 0)
		return csight_set_options_error(c, rc);
	parameters = json_object_new_object();
	json_add(parameters, "rule", rule_json(&known));
	rc = csight_add_arm_options(parameters, options);
	if (rc < 0) {
		json_object_put(parameters);
		return csight_set_options_error(c, rc);
	}
	return csight_call_for_field(
	    c, (struct csight_request){ .method = INTERFACE "ArmStanding", .parameters = parameters }, "standing", ret);
}

int csight_disarm_standing(struct csight *c, uint32_t id)
{
	json_object *o = json_object_new_object();

	json_add_i64(o, "id", id);
	csight_begin_call(c, "remove standing target %u", id);
	return csight_call_method(c, (struct csight_request){ .method = INTERFACE "DisarmStanding", .parameters = o },
				  NULL);
}

int csight_standing(struct csight *c, struct csight_object **ret)
{
	csight_begin_call(c, "list standing targets");
	return csight_call_for_list(c, INTERFACE "ListStanding", "standing", ret);
}
