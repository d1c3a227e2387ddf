/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/policy.h"
#include "daemon/standing/standing-methods.h"
#include "daemon/standing/standing-wire.h"
#include "daemon/wire.h"

enum { STANDING_A_PAGE = 64 };

bool standing_methods_find(struct daemon *d, struct call *c, struct methods_subject *ret)
{
	uint64_t id;

	if (json_get_u64(c->parameters, "id", &id) < 0) {
		call_invalid(c, "id");
		return false;
	}
	ret->standing = id <= UINT32_MAX ? standing_find(d->standing, (uint32_t)id) : NULL;
	if (!ret->standing) {
		call_error(c, wire_error_str(WIRE_NO_SUCH_STANDING_TARGET), wire_error_of_trigger(id));
		return false;
	}
	if (policy_owns(c->by.uid, ret->standing->by.uid))
		return true;
	audit_deny(&c->by, ret->action, &(struct audit_object){ .owner = ret->standing->by.uid });
	call_error(c, VARLINK_PERMISSION_DENIED, NULL);
	return false;
}

/* Reads the parameters of Arm with a rule. Returns false after an error reply. */
static bool get_request(struct call *c, struct standing_request *ret)
{
	const char *bad = "rule";
	json_object *rule, *options = NULL;
	int rc = json_get(c->parameters, "rule", json_type_object, &rule) < 0 ? -EINVAL : 0;

	if (rc == 0)
		rc = standing_wire_read_rule(rule, &ret->rule, &bad);
	if (rc == 0 && json_get(c->parameters, "options", json_type_object, &options) == -EINVAL) {
		bad = "options";
		rc = -EINVAL;
	}
	if (rc == 0 && options)
		rc = wire_read_options(options, &ret->options, &bad);
	/* A thread belongs to one process; a rule may select many. */
	if (rc == 0 && ret->options.thread) {
		bad = "thread";
		rc = -EINVAL;
	}
	if (rc < 0)
		call_invalid(c, bad);
	ret->by = &c->by;
	return rc == 0;
}

static void record(const struct audit_actor *by, enum audit_action action, const struct standing *s)
{
	char text[STANDING_RULE_TEXT_SIZE];

	standing_rule_text(&s->rule, text);
	audit_done(by, action, &(struct audit_object){ .owner = s->by.uid, .rule = text });
}

static void fail(struct call *c, const struct standing_request *request, int rc, const struct reason *why,
		 const struct ledger_refusal *limit)
{
	const struct audit_object on = { .pid = request->rule.tree, .owner = c->by.uid };

	if (rc == -EDQUOT) {
		audit_limit(&c->by, AUDIT_ARM, &on, limit);
		call_error(c, wire_error_str(WIRE_LIMIT_REACHED), wire_error_of_limit(limit));
		return;
	}
	if (rc == -EPERM || rc == -EACCES)
		audit_deny(&c->by, AUDIT_ARM, &on);
	if (rc == -EPERM) {
		call_error(c, VARLINK_PERMISSION_DENIED, NULL);
		return;
	}
	call_error(c, wire_error_str(WIRE_INVALID_RULE),
		   wire_error_of_configuration(*why->text ? why : &(struct reason){ "out of memory" }));
}

void standing_methods_arm(struct daemon *d, struct call *c, struct methods_subject *s)
{
	struct standing_request request = { .by = NULL };
	struct ledger_refusal limit = { 0 };
	struct reason why = { "" };
	struct standing *standing;
	json_object *o;
	int rc;

	if (!get_request(c, &request))
		return;
	/* If the process has ended its start stays 0, and standing_add() refuses the rule. */
	if (request.rule.tree)
		proc_file_start(request.rule.tree, &request.rule.tree_start);
	rc = standing_add(d->standing, &request, &standing, &why, &limit);
	if (rc < 0) {
		fail(c, &request, rc, &why, &limit);
		return;
	}
	record(&c->by, AUDIT_ARM, standing);
	o = json_object_new_object();
	json_add(o, "standing", standing_wire(standing));
	call_reply(c, o);
}

void standing_methods_disarm(struct daemon *d, struct call *c, struct methods_subject *s)
{
	struct reason why = { "" };

	if (s->standing->section) {
		reason_set(&why, 0, "it is [Target %s] of the configuration: remove the section, and reload",
			   s->standing->section);
		call_error(c, wire_error_str(WIRE_INVALID_RULE), wire_error_of_configuration(&why));
		return;
	}
	record(&c->by, AUDIT_DISARM, s->standing);
	standing_remove(s->standing);
	call_reply_empty(c);
}

void standing_methods_list(struct daemon *d, struct call *c, struct methods_subject *s)
{
	const struct standing *standing;
	uint64_t first = 0, n = 0;
	json_object *list, *o;

	if (json_get_u64(c->parameters, "first", &first) == -EINVAL) {
		call_invalid(c, "first");
		return;
	}
	list = json_object_new_array();
	TAILQ_FOREACH (standing, standing_list_all(d->standing), link)
		if (policy_owns(c->by.uid, standing->by.uid)) {
			if (n >= first && n - first < STANDING_A_PAGE)
				json_array_add(list, standing_wire(standing));
			n++;
		}
	o = json_object_new_object();
	json_add(o, "standing", list);
	if (first + STANDING_A_PAGE < n)
		json_add_u64(o, "next", first + STANDING_A_PAGE);
	call_reply(c, o);
}
