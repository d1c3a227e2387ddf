/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/quotas.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

struct quota_section {
	char *name;
	bool of_group;
	struct account_set users;
	bool set[LEDGER_KINDS];
	struct ledger_limits limits;
};

int quotas_section(struct quotas *q, const char *name)
{
	static const char user[] = "User ", group[] = "Group ";
	struct quota_section s = { .of_group = strncmp(name, group, strlen(group)) == 0 };
	int rc;

	for (size_t n = 0; n < q->n; n++)
		if (strcmp(q->sections[n].name, name) == 0)
			return (int)n;
	if (!s.of_group && strncmp(name, user, strlen(user)) != 0)
		return -EINVAL;
	if (array_reserve(q->sections, q->n, &q->room) < 0 || !(s.name = strdup(name)))
		return -ENOMEM;
	rc = s.of_group ? accounts_set_add_group(&s.users, name + strlen(group))
			: accounts_set_add_user(&s.users, name + strlen(user));
	if (rc < 0) {
		free(s.name);
		accounts_set_done(&s.users);
		return rc;
	}
	q->sections[q->n] = s;
	return (int)q->n++;
}

void quotas_set(struct quotas *q, int section, enum ledger_kind kind, uint64_t most)
{
	if (section < 0) {
		q->defaults.most[kind] = most;
		return;
	}
	q->sections[section].set[kind] = true;
	q->sections[section].limits.most[kind] = most;
}

static void apply_sections(const struct quotas *q, uid_t user, bool of_groups, struct ledger_limits *ret)
{
	for (size_t n = 0; n < q->n; n++) {
		const struct quota_section *s = &q->sections[n];

		if (s->of_group != of_groups || !accounts_set_has(&s->users, user, NULL, 0))
			continue;
		for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
			if (s->set[k])
				ret->most[k] = s->limits.most[k];
	}
}

void quotas_limits(const struct quotas *q, uid_t user, struct ledger_limits *ret)
{
	*ret = q->defaults;
	apply_sections(q, user, true, ret);
	apply_sections(q, user, false, ret);
}

static bool sections_equal(const struct quota_section *a, const struct quota_section *b)
{
	if (strcmp(a->name, b->name) != 0 || !accounts_set_equal(&a->users, &b->users))
		return false;
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		if (a->set[k] != b->set[k] || (a->set[k] && a->limits.most[k] != b->limits.most[k]))
			return false;
	return true;
}

bool quotas_sections_equal(const struct quotas *a, const struct quotas *b)
{
	for (size_t n = 0; n < a->n && a->n == b->n; n++)
		if (!sections_equal(&a->sections[n], &b->sections[n]))
			return false;
	return a->n == b->n;
}

void quotas_done(struct quotas *q)
{
	for (size_t n = 0; n < q->n; n++) {
		free(q->sections[n].name);
		accounts_set_done(&q->sections[n].users);
	}
	free(q->sections);
	*q = (struct quotas){ 0 };
}

int quotas_kind(const char *setting, enum ledger_kind *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		if (k != LEDGER_PENDING && strcmp(ledger_setting(k, false), setting) == 0) {
			*ret = k;
			return 0;
		}
	return -ENOENT;
}
