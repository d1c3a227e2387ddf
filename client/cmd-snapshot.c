/* SPDX-License-Identifier: MIT */
/* csight snapshot. */
#include <string.h>

#include "client/client.h"
#include "client/group.h"
#include "client/selection.h"
#include "lib/base/escape.h"

enum {
	OPTION_PID,
	OPTION_TREE,
	OPTION_CGROUP,
	OPTION_UNIT,
	OPTION_ALL,
	OPTION_NO_ARM,
	OPTION_NO_WAIT,
	OPTION_LAST,
	OPTION_REASON,
	OPTION_LABEL
};

static const struct verb_option options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_TREE] = { "tree", 0, "N", "the armed ones of a process and its descendants, at one instant" },
	[OPTION_CGROUP] = { "cgroup", 0, "PATH", "the same of a control group" },
	[OPTION_UNIT] = { "unit", 0, "NAME", "the same of a unit of systemd" },
	[OPTION_ALL] = { "all", 0, NULL, "the same of all own processes; of root, of those of all users" },
	[OPTION_NO_ARM] = { "no-arm", 0, NULL, "fail if the process is not armed, instead of arming it" },
	[OPTION_NO_WAIT] = { "no-wait", 0, NULL, "return when the trace is saved, before it is decoded" },
	[OPTION_LAST] = { "last", 0, "TIME", "only the trace of this time before it, such as 10ms (default all)" },
	[OPTION_REASON] = { "reason", 0, "TEXT", CLIENT_REASON_HELP },
	[OPTION_LABEL] = { "label", 0, "NAME=VALUE", CLIENT_LABEL_HELP },
	{ 0 },
};

/* The subject of a snapshot: a process or a group. */
struct subject {
	pid_t pid;
	enum group_kind kind;
	const char *group;
};

static int set_group(struct client *c, struct subject *s, enum group_kind kind, const char *value)
{
	static const char root[] = "/sys/fs/cgroup/";

	if (s->kind != GROUP_NONE)
		return client_usage(c, "only one of --tree, --cgroup, --unit and --all may be given");
	s->kind = kind;
	s->group = strncmp(value, root, strlen(root)) == 0 ? value + strlen(root) - 1 : value;
	return 0;
}

/* Parses the command line. Returns -1 if a snapshot is to be taken, else the exit status. */
static int snapshot_parse(struct client *c, struct client_annotation *ret, struct subject *ret_subject)
{
	const char *value, *pid = NULL;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		switch (o) {
		case OPTION_PID:
			pid = value;
			break;
		case OPTION_TREE:
		case OPTION_CGROUP:
		case OPTION_UNIT:
			rc = set_group(c, ret_subject, GROUP_TREE + (unsigned)(o - OPTION_TREE), value);
			break;
		case OPTION_ALL:
			rc = set_group(c, ret_subject, GROUP_CGROUP, "/");
			break;
		case OPTION_LAST:
			if (selection_parse_duration(value, &ret->options.last) < 0 || !ret->options.last)
				return client_usage(c, "--last: '%s' is not a time, such as 10ms", esc(value));
			break;
		case OPTION_REASON:
			ret->options.reason = value;
			break;
		case OPTION_LABEL:
			rc = client_add_label(c, ret, value);
			break;
		default:
			ret->options.flags |= o == OPTION_NO_ARM ? CSIGHT_NO_ARM : CSIGHT_NO_WAIT;
		}
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	if (ret_subject->kind != GROUP_NONE && !pid && !c->argc)
		return -1;
	if (ret_subject->kind != GROUP_NONE)
		return client_usage(c, "a process and a group exclude each other");
	rc = client_pid(c, pid, &ret_subject->pid);
	return rc != 0 ? rc : -1;
}

static int snapshot_run(struct client *c)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	struct client_annotation a = { .options.size = sizeof(a.options) };
	struct subject subject = { .kind = GROUP_NONE };
	struct group_pids group = { .n = 0 };
	int rc = snapshot_parse(c, &a, &subject);

	if (rc >= 0)
		return rc;
	rc = client_connect(c);
	if (rc == 0 && subject.kind != GROUP_NONE)
		rc = group_find(c, subject.kind, subject.group, &group);
	if (rc != 0)
		return rc;
	if (group.n)
		return group_snapshot(c, &a, &group);
	rc = csight_snapshot_with(c->daemon, subject.pid, &a.options, client_progress, c, &snapshot);
	client_progress_end(c);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	return client_report_snapshot(c, stdout, snapshot);
}

const struct verb cmd_snapshot = {
	.name = "snapshot",
	.arguments = "--pid N | --tree N | --cgroup PATH | --unit NAME | --all",
	.summary = "save the recent history of a process",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = snapshot_run,
};
