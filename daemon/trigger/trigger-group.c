/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/daemon.h"
#include "daemon/group.h"
#include "daemon/policy.h"
#include "daemon/standing/control-group.h"
#include "daemon/trigger/trigger-private.h"
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

/* Returns the process of which another was born, or whose child it is now; 0: unknown. t: its target, or NULL. */
static pid_t parent_of(const struct target *t, pid_t pid)
{
	pid_t parent = 0;

	if (t && t->parent > 0)
		return t->parent;
	return proc_file_parent(pid, &parent) == 0 ? parent : 0;
}

/* Climbs from a target until to, or as far as there are ancestors. Returns the last of those that may be taken. */
static pid_t climb(const struct trigger *t, const struct target *from, pid_t to)
{
	const struct target *at = from;
	pid_t pid = from->pid, top = pid;
	uint64_t start = from->start;

	for (unsigned n = 0; n < ANCESTORS_MAX && pid != to; n++) {
		pid = parent_of(at, pid);
		if (pid <= 1)
			break;
		at = target_list_find(from->all, pid, t->by.uid);
		/* A process that started later has the number of one that ended. */
		if (at && at->start && start && at->start > start)
			break;
		if (at)
			start = at->start;
		if (pid == to || (at && may_take(t, at)))
			top = pid;
	}
	return top;
}

static bool is_member(const struct trigger *t, const struct target *target, pid_t top)
{
	struct control_groups groups;

	if (t->spec.group == TRIGGER_TREE)
		return climb(t, target, top) == top;
	if (control_groups_read(target->pid, &groups) < 0)
		return false;
	return t->spec.group == TRIGGER_UNIT ? control_groups_same_unit(t->groups, &groups)
					     : control_groups_equal(t->groups, &groups);
}

static void find_members(const struct trigger *t, struct snapshot_group *ret)
{
	struct target *first = t->watched->target, *other;
	pid_t top = t->spec.group == TRIGGER_TREE ? climb(t, first, 0) : 0;

	TAILQ_FOREACH (other, target_list_all(first->all), link)
		if (other != first && ret->n < GROUP_MAX - 1 && may_take(t, other) && is_member(t, other, top))
			ret->members[ret->n++] = other;
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
