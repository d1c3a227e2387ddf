/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/accounts.h"
#include "daemon/trigger/trigger-private.h"
#include "daemon/trigger/trigger-sections.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"

static const char PREFIX[] = "Trigger ";

bool trigger_sections_have(const char *section)
{
	return strncmp(section, PREFIX, strlen(PREFIX)) == 0;
}

/* Returns the section of this name, which is added if there is none; NULL: no memory. */
static struct trigger_section *find_or_add_section(struct trigger_sections *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->list[i].name, name) == 0)
			return &s->list[i];
	if (array_reserve(s->list, s->n, &s->room) < 0)
		return NULL;
	s->list[s->n] = (struct trigger_section){ .name = strdup(name) };
	return s->list[s->n].name ? &s->list[s->n++] : NULL;
}

static int set_user(struct trigger_section *t, const char *value, struct reason *why)
{
	int rc = accounts_find_user(value, &t->user);

	t->has_user = true;
	/* If csightd starts all the same, the section is of no process. */
	if (rc < 0)
		t->user = ACCOUNTS_NO_UID;
	if (rc == -ESRCH)
		return reason_set(why, rc, "there is no user \"%s\"", esc(value));
	return rc < 0 ? reason_set(why, rc, "cannot look up \"%s\": %s", esc(value), strerror(-rc)) : 0;
}

int trigger_sections_set(struct trigger_sections *s, const struct ini_entry *e, struct reason *why)
{
	struct trigger_section *t = find_or_add_section(s, e->section + strlen(PREFIX));
	const char *value = e->value;

	if (!t)
		return reason_set(why, -ENOMEM, "out of memory");
	if (strcmp(e->key, "user") == 0)
		return set_user(t, value, why);
	if (strcmp(e->key, "program") == 0) {
		free(t->program);
		t->program = strdup(value);
		return t->program ? 0 : -ENOMEM;
	}
	/* A key that takes no value is set by yes. */
	if (!trigger_key_has_value(e->key) && strcmp(value, "yes") == 0)
		value = NULL;
	return trigger_spec_set(&t->spec, e->key, value, why);
}

int trigger_sections_check(const struct trigger_sections *s, struct reason *why)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct trigger_section *t = &s->list[i];
		struct reason inner = { "" };

		if (trigger_spec_check(&t->spec, &inner) < 0)
			return reason_set(why, -EINVAL, "[Trigger %s]: %s", esc(t->name), inner.text);
		for (unsigned k = 0; k < trigger_spec_count(&t->spec); k++)
			if (trigger_condition_needs_symbols(&t->spec.conditions[k]))
				return reason_set(
				    why, -EINVAL,
				    "[Trigger %s]: csightd reads no symbols, which function and line need; set it "
				    "with csight watch --background",
				    esc(t->name));
	}
	return 0;
}

static bool section_equal(const struct trigger_section *a, const struct trigger_section *b)
{
	return strcmp(a->name, b->name) == 0 && !a->program == !b->program &&
	       (!a->program || strcmp(a->program, b->program) == 0) && a->has_user == b->has_user &&
	       a->user == b->user && memcmp(&a->spec, &b->spec, sizeof(a->spec)) == 0;
}

bool trigger_sections_equal(const struct trigger_sections *a, const struct trigger_sections *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (!section_equal(&a->list[i], &b->list[i]))
			return false;
	return a->n == b->n;
}

void trigger_sections_done(struct trigger_sections *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->list[i].name);
		free(s->list[i].program);
	}
	free(s->list);
	*s = (struct trigger_sections){ .list = NULL };
}

static bool matches(const struct trigger_section *s, const struct target *t)
{
	if (s->has_user && s->user != t->uid)
		return false;
	return !s->program || fnmatch(s->program, t->name, 0) == 0 || (t->exe && fnmatch(s->program, t->exe, 0) == 0);
}

static bool has_trigger(const struct trigger_list *all, const struct target *target, const char *section)
{
	struct trigger *t;

	TAILQ_FOREACH (t, &all->triggers, link)
		if (t->section && strcmp(t->section, section) == 0 && t->watched && t->watched->target == target)
			return true;
	return false;
}

void trigger_sections_apply(const struct trigger_sections *s, struct trigger_list *all, struct audit *audit,
			    struct target *target)
{
	const struct audit_actor by = { .audit = audit, .uid = target->owner, .login_uid = (uid_t)-1 };

	for (size_t i = 0; all && i < s->n; i++) {
		const struct trigger_section *section = &s->list[i];
		struct trigger_request request = {
			.target = target, .by = &by, .spec = section->spec, .section = section->name
		};
		struct ledger_refusal limit = { 0 };
		struct reason why = { "" };
		struct trigger *t;
		int rc;

		if (!matches(section, target) || has_trigger(all, target, section->name))
			continue;
		rc = trigger_add(all, &request, &t, &why, &limit);
		if (rc == -EDQUOT)
			ledger_explain(&limit, &why);
		if (rc < 0)
			log_warning("cannot set [Trigger %s] on process %d (%s): %s", esc(section->name),
				    (int)target->pid, esc(target->name), *why.text ? why.text : strerror(-rc));
	}
}

void trigger_sections_update(const struct trigger_sections *s, struct trigger_list *all, struct audit *audit,
			     const struct target_list *targets)
{
	struct trigger *t, *next;
	struct target *target;

	for (t = TAILQ_FIRST(&all->triggers); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->section && !t->ended)
			trigger_remove(t);
	}
	TAILQ_FOREACH (target, target_list_all(targets), link)
		if (target->ring.state != RING_GONE && target->ring.state != RING_DISARMED)
			trigger_sections_apply(s, all, audit, target);
}
