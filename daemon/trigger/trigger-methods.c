/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/daemon.h"
#include "daemon/policy.h"
#include "daemon/trigger/trigger-methods.h"
#include "daemon/trigger/trigger-wire.h"
#include "daemon/wire.h"

enum { TRIGGERS_A_PAGE = 64 };

static struct audit_object object_of(const struct trigger *t)
{
	return (struct audit_object){ .pid = t->pid, .owner = t->by.uid, .name = t->name, .trigger = t->condition };
}

static void fail_trigger(struct call *c, const struct reason *why)
{
	call_error(c, wire_error_str(WIRE_INVALID_TRIGGER), wire_error_of_configuration(why));
}

bool trigger_methods_find(struct daemon *d, struct call *c, struct methods_subject *ret)
{
	struct audit_object on;
	uint64_t id;

	if (json_get_u64(c->parameters, "id", &id) < 0) {
		call_invalid(c, "id");
		return false;
	}
	ret->trigger = id <= UINT32_MAX ? trigger_find(d->triggers, (uint32_t)id) : NULL;
	if (!ret->trigger) {
		call_error(c, wire_error_str(WIRE_NO_SUCH_TRIGGER), wire_error_of_trigger(id));
		return false;
	}
	if (policy_owns(c->by.uid, ret->trigger->by.uid))
		return true;
	on = object_of(ret->trigger);
	audit_deny(&c->by, ret->action, &on);
	call_error(c, VARLINK_PERMISSION_DENIED, NULL);
	return false;
}

/* Reads the parameters of Watch. Returns false after an error reply. */
static bool get_request(struct call *c, struct methods_subject *s, struct trigger_request *ret)
{
	struct reason why = { "" };
	json_object *places = NULL;
	const char *text;
	int n = 0;

	if (json_get_str(c->parameters, "trigger", &text) < 0 || strlen(text) > TRIGGER_TEXT_MAX) {
		call_invalid(c, "trigger");
		return false;
	}
	if (json_get(c->parameters, "places", json_type_array, &places) == -EINVAL ||
	    (places && (n = trigger_wire_places(places, ret->places)) < 0)) {
		call_invalid(c, "places");
		return false;
	}
	if (trigger_spec_parse(text, &ret->spec, &why) < 0) {
		fail_trigger(c, &why);
		return false;
	}
	ret->n_places = (size_t)n;
	ret->target = s->target;
	ret->by = &c->by;
	ret->attached = c->more;
	return true;
}

void trigger_methods_watch(struct daemon *d, struct call *c, struct methods_subject *s)
{
	struct trigger_request request = { .attached = false };
	struct ledger_refusal limit = { 0 };
	struct reason why = { "" };
	struct audit_object on;
	struct trigger *t;
	int rc;

	if (!s->target || s->target->ring.state == RING_GONE) {
		call_error(c, wire_error_str(WIRE_NOT_ARMED), wire_error_of_process(s->pid, NULL));
		return;
	}
	if (!get_request(c, s, &request))
		return;
	rc = trigger_add(d->triggers, &request, &t, &why, &limit);
	if (rc == -EDQUOT) {
		on = (struct audit_object){ .pid = s->pid, .owner = s->target->owner, .name = s->target->name };
		audit_limit(&c->by, AUDIT_ARM, &on, &limit);
		call_error(c, wire_error_str(WIRE_LIMIT_REACHED), wire_error_of_limit(&limit));
		return;
	}
	if (rc < 0) {
		if (!why.text[0])
			reason_set(&why, rc, "%s", strerror(-rc));
		fail_trigger(c, &why);
		return;
	}
	on = object_of(t);
	audit_done(&c->by, AUDIT_ARM, &on);
	trigger_wait(t, c);
}

void trigger_methods_list(struct daemon *d, struct call *c, struct methods_subject *s)
{
	json_object *list, *o;
	uint64_t first = 0, n = 0;
	struct trigger *t;

	if (json_get_u64(c->parameters, "first", &first) == -EINVAL) {
		call_invalid(c, "first");
		return;
	}
	list = json_object_new_array();
	TAILQ_FOREACH (t, trigger_list_all(d->triggers), link)
		if (policy_owns(c->by.uid, t->by.uid)) {
			if (n >= first && n - first < TRIGGERS_A_PAGE)
				json_array_add(list, trigger_wire(t));
			n++;
		}
	o = json_object_new_object();
	json_add(o, "triggers", list);
	if (first + TRIGGERS_A_PAGE < n)
		json_add_u64(o, "next", first + TRIGGERS_A_PAGE);
	call_reply(c, o);
}

void trigger_methods_set(struct daemon *d, struct call *c, struct methods_subject *s)
{
	const struct audit_object on = object_of(s->trigger);
	struct reason why = { "" };
	bool enabled;

	if (json_get_bool(c->parameters, "enabled", &enabled) < 0) {
		call_invalid(c, "enabled");
		return;
	}
	if (trigger_enable(s->trigger, enabled, &why) < 0) {
		fail_trigger(c, &why);
		return;
	}
	audit_done(&c->by, enabled ? AUDIT_ARM : AUDIT_DISARM, &on);
	call_reply(c, trigger_wire_reply(s->trigger));
}

void trigger_methods_remove(struct daemon *d, struct call *c, struct methods_subject *s)
{
	const struct audit_object on = object_of(s->trigger);

	audit_done(&c->by, AUDIT_DISARM, &on);
	trigger_remove(s->trigger);
	call_reply_empty(c);
}
