/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/ancestors.h"
#include "daemon/daemon.h"
#include "daemon/group.h"
#include "daemon/policy.h"
#include "daemon/standing/control-group.h"
#include "daemon/trigger/trigger-private.h"
#include "lib/base/array.h"
#include "lib/base/hex.h"

enum { ANCESTORS_MAX = 64, GROUP_NAME_SIZE = 13 };

int trigger_group_note(struct trigger *t)
{
	if (t->spec.group != TRIGGER_CGROUP && t->spec.group != TRIGGER_UNIT)
		return 0;
	t->groups = malloc(sizeof(*t->groups));
	return t->groups ? control_groups_read(t->pid, t->groups) : -ENOMEM;
}

/* True if the target is recorded now, and one of which the trigger's user may take snapshots. */
static bool may_take(const struct trigger *t, const struct target *target)
{
	return (target->ring.state == RING_ARMED || target->ring.state == RING_FROZEN) && !target->foreign &&
	       policy_owns(t->by.uid, target->owner) && policy_process(t->by.uid, target->pid) == 0;
}

struct listed_target {
	const struct target *target;
	bool asked, may; /* may: be taken, if it was asked */
};

/* One search for members. */
struct search {
	const struct trigger *trigger;
	struct ancestors ancestors;
	struct hash targets; /* numbers in the list, by process: the one that runs, else the one that ended last */
	struct listed_target *list; /* those that the trigger's user owns */
	size_t n, room;
};

static int add_target(struct search *s, const struct target *t)
{
	uint32_t *n;
	int rc = array_reserve(s->list, s->n, &s->room);

	if (rc == 0)
		rc = hash_find(&s->targets, (uint64_t)t->pid, 0, &n);
	if (rc < 0 || (rc == 0 && s->list[*n].target->ring.state != RING_GONE))
		return rc;
	*n = (uint32_t)s->n;
	s->list[s->n++] = (struct listed_target){ .target = t };
	return 0;
}

static struct listed_target *find_target(const struct search *s, pid_t pid)
{
	const uint32_t *n = hash_get(&s->targets, (uint64_t)pid, 0);

	return n ? &s->list[*n] : NULL;
}

/* Asks once for each target, since that reads a file of /proc. */
static bool is_free(struct search *s, struct listed_target *l)
{
	if (!l->asked)
		l->may = may_take(s->trigger, l->target);
	l->asked = true;
	return l->may;
}

/* Climbs from a target until to, or as far as there are ancestors. Returns the last of those that may be taken. */
static pid_t climb(struct search *s, const struct target *from, pid_t to)
{
	const struct target *at = from;
	pid_t pid = from->pid, top = pid;
	uint64_t start = from->start;

	for (unsigned n = 0; n < ANCESTORS_MAX && pid != to; n++) {
		struct listed_target *l;

		pid = at && at->parent > 0 ? at->parent : ancestors_parent(&s->ancestors, pid);
		if (pid <= 1)
			break;
		l = find_target(s, pid);
		at = l ? l->target : NULL;
		/* A process that started later has the number of one that ended. */
		if (at && at->start && start && at->start > start)
			break;
		if (at)
			start = at->start;
		if (pid == to || (l && is_free(s, l)))
			top = pid;
	}
	return top;
}

static bool is_member(struct search *s, const struct target *target, pid_t top)
{
	const struct trigger *t = s->trigger;
	struct control_groups groups;

	if (t->spec.group == TRIGGER_TREE)
		return climb(s, target, top) == top;
	if (control_groups_read(target->pid, &groups) < 0)
		return false;
	return t->spec.group == TRIGGER_UNIT ? control_groups_same_unit(t->groups, &groups)
					     : control_groups_equal(t->groups, &groups);
}

static void find_members(const struct trigger *t, struct snapshot_group *ret)
{
	struct target *first = t->watched->target, *other;
	struct search s = { .trigger = t };
	pid_t top = 0;

	TAILQ_FOREACH (other, target_list_all(first->all), link)
		if (t->spec.group == TRIGGER_TREE && policy_owns(t->by.uid, other->owner) && add_target(&s, other) < 0)
			break;
	if (t->spec.group == TRIGGER_TREE)
		top = climb(&s, first, 0);
	TAILQ_FOREACH (other, target_list_all(first->all), link)
		if (other != first && ret->n < GROUP_MAX - 1 && may_take(t, other) && is_member(&s, other, top))
			ret->members[ret->n++] = other;
	ancestors_done(&s.ancestors);
	hash_done(&s.targets);
	free(s.list);
}

/* Returns labels with the random name of a group. */
static json_object *new_labels(void)
{
	json_object *labels = json_object_new_array(), *label = json_object_new_object();
	char name[GROUP_NAME_SIZE];

	hex_random(name, sizeof(name));
	json_add_str(label, "name", "group");
	json_add_str(label, "value", name);
	json_array_add(labels, label);
	return labels;
}

int trigger_group_begin(struct trigger *t, struct annotation *ret, struct ledger_refusal *ret_limit)
{
	struct snapshot_group g = { .n = 0 };
	int rc = 0;

	find_members(t, &g);
	if (g.n)
		rc = ledger_spend(t->all->o.ledger, t->by.uid, LEDGER_TRIGGERED, g.n, ret_limit);
	if (rc < 0)
		return rc;
	ret->labels = new_labels();
	group_begin(t->all->o.daemon, &t->by, t->watched->target, &g, ret);
	return 0;
}
