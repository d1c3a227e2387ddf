/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/policy.h"
#include "daemon/standing/control-group.h"
#include "daemon/standing/standing-rule.h"
#include "lib/base/escape.h"

void standing_rule_done(struct standing_rule *r)
{
	free(r->name);
	free(r->exe);
	free(r->unit);
	free(r->cgroup);
	*r = (struct standing_rule){ .tree = 0 };
}

static bool copy_text(const char *from, char **ret)
{
	*ret = from ? strdup(from) : NULL;
	return *ret || !from;
}

int standing_rule_copy(const struct standing_rule *r, struct standing_rule *ret)
{
	struct standing_rule copy = *r;
	bool complete = copy_text(r->name, &copy.name);

	complete = copy_text(r->exe, &copy.exe) && complete;
	complete = copy_text(r->unit, &copy.unit) && complete;
	complete = copy_text(r->cgroup, &copy.cgroup) && complete;
	if (!complete) {
		standing_rule_done(&copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

static bool texts_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool standing_rule_equal(const struct standing_rule *a, const struct standing_rule *b)
{
	return texts_equal(a->name, b->name) && texts_equal(a->exe, b->exe) && texts_equal(a->unit, b->unit) &&
	       texts_equal(a->cgroup, b->cgroup) && a->has_user == b->has_user && a->user == b->user &&
	       a->tree == b->tree && a->tree_start == b->tree_start;
}

int standing_rule_check(const struct standing_rule *r, struct reason *why)
{
	const struct {
		const char *key, *value;
	} texts[] = { { "name", r->name }, { "exe", r->exe }, { "unit", r->unit }, { "cgroup", r->cgroup } };

	for (size_t i = 0; i < ELEMENTS(texts); i++)
		if (texts[i].value && (!*texts[i].value || strlen(texts[i].value) >= STANDING_RULE_PART_SIZE))
			return reason_set(why, -EINVAL, "%s is empty, or has more than %d bytes", texts[i].key,
					  STANDING_RULE_PART_SIZE - 1);
	if (!r->name && !r->exe && !r->unit && !r->cgroup && !r->has_user && !r->tree)
		return reason_set(why, -EINVAL,
				  "it selects no process: it needs a name, exe, unit, cgroup, tree or user");
	if (r->exe && *r->exe != '/')
		return reason_set(why, -EINVAL, "exe must be the absolute path of a program, not \"%s\"", esc(r->exe));
	if (r->cgroup && *r->cgroup != '/')
		return reason_set(why, -EINVAL,
				  "cgroup must be the path of a control group, as /proc/PID/cgroup has it, not \"%s\"",
				  esc(r->cgroup));
	if (r->unit && (strchr(r->unit, '/') || !strchr(r->unit, '.')))
		return reason_set(why, -EINVAL,
				  "unit must be the whole name of a unit, such as nginx.service, not \"%s\"",
				  esc(r->unit));
	return 0;
}

bool standing_rule_matches(const struct standing_rule *r, uid_t requester, const struct standing_process *p)
{
	struct control_groups groups;

	if (!policy_owns(requester, p->uid) || (r->has_user && r->user != p->uid) ||
	    (r->name && fnmatch(r->name, p->name, 0) != 0) || (r->exe && strcmp(r->exe, p->exe) != 0))
		return false;
	if (!r->cgroup && !r->unit)
		return true;
	return control_groups_read(p->pid, &groups) == 0 && (!r->cgroup || control_groups_have(&groups, r->cgroup)) &&
	       (!r->unit || control_groups_of_unit(&groups, r->unit, requester != 0));
}

bool standing_rule_names_program(const struct standing_rule *r)
{
	return r->name || r->exe;
}

static void add_text(char *to, const char *key, const char *value)
{
	size_t n = strlen(to);

	if (value)
		snprintf(to + n, STANDING_RULE_TEXT_SIZE - n, "%s%s=%s", n ? " " : "", key, value);
}

void standing_rule_text(const struct standing_rule *r, char ret[STANDING_RULE_TEXT_SIZE])
{
	char number[16];

	*ret = 0;
	add_text(ret, "name", r->name);
	add_text(ret, "exe", r->exe);
	add_text(ret, "unit", r->unit);
	add_text(ret, "cgroup", r->cgroup);
	snprintf(number, sizeof(number), "%u", r->user);
	add_text(ret, "user", r->has_user ? number : NULL);
	snprintf(number, sizeof(number), "%d", (int)r->tree);
	add_text(ret, "tree", r->tree ? number : NULL);
}

bool standing_options_equal(const struct capture_options *a, const struct capture_options *b)
{
	return a->kernel == b->kernel && a->cycles == b->cycles && a->no_timestamps == b->no_timestamps &&
	       a->no_contexts == b->no_contexts && a->branch_broadcast == b->branch_broadcast &&
	       a->no_return_stack == b->no_return_stack && a->cycle_threshold == b->cycle_threshold &&
	       a->timestamp_interval == b->timestamp_interval && texts_equal(a->filter, b->filter) &&
	       texts_equal(a->sink, b->sink) && texts_equal(a->counters, b->counters) &&
	       texts_equal(a->cpus, b->cpus) && a->ring_size == b->ring_size && a->mode == b->mode;
}
