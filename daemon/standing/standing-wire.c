/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/standing/standing-wire.h"
#include "daemon/wire.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum { STATE_BYTES = 768 }; /* without texts */

static json_object *rule_json(const struct standing_rule *r)
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
	if (r->has_user)
		json_add_i64(o, "user", r->user);
	if (r->tree)
		json_add_i64(o, "tree", r->tree);
	return o;
}

json_object *standing_wire(const struct standing *s)
{
	char text[STANDING_RULE_TEXT_SIZE];
	json_object *o = json_object_new_object();

	standing_rule_text(&s->rule, text);
	json_add_u64(o, "id", s->id);
	json_add_i64(o, "uid", s->by.uid);
	json_add(o, "rule", rule_json(&s->rule));
	json_add_bytes(o, "text", text);
	json_add(o, "options", wire_options(&s->options));
	if (s->section)
		json_add_bytes(o, "section", s->section);
	json_add_u64(o, "armed", s->armed);
	json_add_u64(o, "failed", s->failed);
	if (*s->why.text)
		json_add_bytes(o, "trouble", s->why.text);
	return o;
}

int standing_wire_read_rule(json_object *o, struct standing_rule *ret, const char **ret_bad)
{
	struct standing_rule r = { .tree = 0 };
	int64_t user = -1, tree = 0;
	const struct {
		const char *name;
		char **text;
	} texts[] = { { "name", &r.name }, { "exe", &r.exe }, { "unit", &r.unit }, { "cgroup", &r.cgroup } };

	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		const char *text = NULL;

		*ret_bad = texts[i].name;
		if (json_get_str(o, texts[i].name, &text) == -EINVAL)
			return -EINVAL;
		/* Borrowed: standing_add() copies it. */
		*texts[i].text = (char *)text;
	}
	*ret_bad = "user";
	if (json_get_i64(o, "user", &user) == -EINVAL || user < -1 || user >= UINT32_MAX)
		return -EINVAL;
	*ret_bad = "tree";
	if (json_get_i64(o, "tree", &tree) == -EINVAL || tree < 0 || tree > INT32_MAX)
		return -EINVAL;
	r.has_user = user >= 0;
	r.user = r.has_user ? (uid_t)user : 0;
	r.tree = (pid_t)tree;
	*ret = r;
	return 0;
}

/* Returns the most bytes of it in the state; 0: it is of the configuration. */
static uint64_t state_size(const struct standing *s)
{
	const struct standing_rule *r = &s->rule;

	return s->section ? 0
			  : STATE_BYTES + state_shares_text(r->name) + state_shares_text(r->exe) +
				state_shares_text(r->unit) + state_shares_text(r->cgroup) +
				state_shares_text(s->options.filter) + state_shares_text(s->options.sink) +
				state_shares_text(s->options.counters) + state_shares_text(s->options.cpus);
}

void standing_wire_measure(const struct standing_list *all, struct state_shares *shares)
{
	const struct standing *s;

	TAILQ_FOREACH (s, standing_list_all(all), link)
		state_shares_want(shares, s->by.uid, state_size(s));
}

json_object *standing_wire_state(const struct standing_list *all, struct state_shares *shares)
{
	json_object *list = json_object_new_array();
	const struct standing *s;

	TAILQ_FOREACH (s, standing_list_all(all), link) {
		json_object *o;

		if (s->section || !state_shares_take(shares, s->by.uid, state_size(s)))
			continue;
		o = json_object_new_object();
		json_add_u64(o, "id", s->id);
		json_add_i64(o, "requester", s->by.uid);
		if (s->by.login_uid != (uid_t)-1)
			json_add_i64(o, "loginUid", s->by.login_uid);
		json_add(o, "rule", rule_json(&s->rule));
		if (s->rule.tree)
			json_add_u64(o, "start", s->rule.tree_start);
		json_add(o, "options", wire_options(&s->options));
		json_array_add(list, o);
	}
	return list;
}

static int restore_rule(struct standing_list *all, struct audit *audit, json_object *o, bool this_boot,
			struct reason *why)
{
	struct audit_actor by = { .audit = audit };
	struct standing_request request = { .by = &by };
	struct ledger_refusal limit = { 0 };
	int64_t id, requester, login = -1;
	json_object *rule, *options;
	const char *bad;
	struct standing *s;
	int rc;

	/* Half of all numbers remain for new rules. */
	if (!json_object_is_type(o, json_type_object) || json_get_within(o, "id", 1, INT32_MAX, &id) < 0 ||
	    json_get_within(o, "requester", 0, UINT32_MAX - 1, &requester) < 0 ||
	    json_get_within(o, "loginUid", 0, UINT32_MAX - 1, &login) == -EINVAL ||
	    json_get(o, "rule", json_type_object, &rule) < 0 ||
	    json_get(o, "options", json_type_object, &options) < 0 ||
	    standing_wire_read_rule(rule, &request.rule, &bad) < 0 ||
	    wire_read_options(options, &request.options, &bad) < 0 ||
	    (request.rule.tree && json_get_u64(o, "start", &request.rule.tree_start) < 0))
		return reason_set(why, -EBADMSG, "it is not valid");
	if (request.rule.tree && !this_boot)
		return reason_set(why, -ESRCH, "its processes ended when the machine was booted");
	by.uid = (uid_t)requester;
	by.login_uid = (uid_t)login;
	request.id = (uint32_t)id;
	rc = standing_add(all, &request, &s, why, &limit);
	if (rc == -EDQUOT)
		ledger_explain(&limit, why);
	if (rc < 0 && !*why->text)
		reason_set(why, rc, "%s", strerror(-rc));
	return rc;
}

void standing_wire_restore(struct standing_list *all, struct audit *audit, json_object *list, bool this_boot)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct reason why = { "" };

		if (restore_rule(all, audit, json_object_array_get_idx(list, i), this_boot, &why) < 0)
			log_warning("a standing target of an earlier csightd is dropped: %s", why.text);
	}
}
