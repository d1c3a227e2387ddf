/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "client/format.h"
#include "client/group.h"
#include "client/trace-store.h"
#include "lib/base/escape.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/parse.h"
#include "lib/csight/group-call.h"
#include "lib/store/store.h"

enum { NAME_SIZE = 13, WAIT_MS = 50, WAITS = 600, TREE_DEPTH = 64 };

/* Returns the parent's process ID; 0: unknown. */
static pid_t parent_of(pid_t pid)
{
	_cleanup_free_ char *line = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	char path[64];
	size_t size = 0;
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && !parent && getline(&line, &size, f) > 0)
		sscanf(line, "PPid: %d", &parent);
	return parent;
}

static bool is_in_tree(pid_t pid, pid_t root)
{
	for (unsigned n = 0; pid > 0 && n < TREE_DEPTH; n++, pid = parent_of(pid))
		if (pid == root)
			return true;
	return false;
}

/* True if the path of a control group is one, or beneath it; or has a component of this name. */
static bool path_matches(const char *path, enum group_kind kind, const char *value)
{
	size_t n = strlen(value);

	while (kind == GROUP_CGROUP && n && value[n - 1] == '/')
		n--;
	if (kind == GROUP_CGROUP)
		return strncmp(path, value, n) == 0 && (path[n] == 0 || path[n] == '/');
	for (const char *at = path; (at = strstr(at, value)); at++)
		if (at > path && at[-1] == '/' && (at[n] == 0 || at[n] == '/'))
			return true;
	return false;
}

static bool is_in_cgroup(pid_t pid, enum group_kind kind, const char *value)
{
	_cleanup_free_ char *line = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	bool found = false;
	char path[64];
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	while (f && !found && getline(&line, &size, f) > 0) {
		const char *colon = strchr(line, ':'), *group = colon ? strchr(colon + 1, ':') : NULL;

		line[strcspn(line, "\n")] = 0;
		found = group && path_matches(group + 1, kind, value);
	}
	return found;
}

int group_find(struct client *c, enum group_kind kind, const char *value, struct group_pids *ret)
{
	_cleanup_object_ struct csight_object *list = NULL;
	const char *sought = value;
	char unit[256];
	uint64_t root = 0;
	size_t left_out = 0;
	int rc;

	if (kind == GROUP_TREE && (parse_u64(value, INT32_MAX, &root) < 0 || root == 0))
		return client_usage(c, "--tree: '%s' is not a process ID", esc(value));
	if (!*value)
		return client_usage(c, "the name of the group is empty");
	if (kind == GROUP_UNIT && !strchr(value, '.')) {
		snprintf(unit, sizeof(unit), "%s.service", value);
		sought = unit;
	}
	rc = csight_targets(c->daemon, &list);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	for (size_t i = 0; i < csight_count(list, "targets"); i++) {
		const struct csight_object *t = csight_item(list, "targets", i);
		pid_t pid = (pid_t)csight_number(t, "pid", 0);

		/* A snapshot of what has executed nothing would fail. */
		if (!csight_flag(t, "running") || csight_flag(t, "idle") ||
		    !(kind == GROUP_TREE ? is_in_tree(pid, (pid_t)root) : is_in_cgroup(pid, kind, sought)))
			continue;
		if (ret->n < GROUP_PIDS_MAX)
			ret->pids[ret->n++] = pid;
		else
			left_out++;
	}
	if (left_out)
		client_error("%zu processes of %s are left out: a group has at most %d", left_out, esc(value),
			     GROUP_PIDS_MAX);
	if (ret->n)
		return 0;
	client_error("no process%s%s is armed, or none has executed anything since then",
		     strcmp(value, "/") ? " of " : "", strcmp(value, "/") ? esc(value) : "");
	return STATUS_NOT_FOUND;
}

const char *group_of(const struct csight_object *snapshot)
{
	for (size_t i = 0; i < csight_count(snapshot, "labels"); i++) {
		const struct csight_object *label = csight_item(snapshot, "labels", i);
		const char *key = csight_text(label, "name");

		if (key && strcmp(key, "group") == 0)
			return csight_text(label, "value");
	}
	return NULL;
}

static bool has_group(const struct csight_object *snapshot, const char *name)
{
	const char *is = group_of(snapshot);

	return is && strcmp(is, name) == 0;
}

/* Lists the snapshots of all processes in *ret, which the caller frees; *ret_n is the number of those in the group. */
static int list_and_count(struct client *c, const char *name, struct csight_object **ret, size_t *ret_n)
{
	int rc = csight_list(c->daemon, ret);

	*ret_n = 0;
	for (size_t i = 0; rc == 0 && i < csight_count(*ret, "snapshots"); i++)
		*ret_n += has_group(csight_item(*ret, "snapshots", i), name);
	return rc;
}

/* Waits until all snapshots of a group exist; some may fail, which is likely once one has. */
static int wait_for_group(struct client *c, const char *name, size_t n, bool failed, struct csight_object **ret)
{
	const unsigned waits = failed ? WAITS / 15 : WAITS;
	size_t found = 0;

	for (unsigned tries = 0;; tries++) {
		int rc = list_and_count(c, name, ret, &found);

		if (rc < 0 || found >= n || tries == waits)
			return rc < 0 ? client_daemon_failed(c, rc) : 0;
		csight_object_free(*ret);
		*ret = NULL;
		usleep(WAIT_MS * 1000);
	}
}

/* Waits for the decodes of a group, and reports each snapshot. failed: the first process has none. */
static int report_group(struct client *c, const struct client_annotation *a, const struct group_pids *g,
			const char *name, bool failed)
{
	_cleanup_object_ struct csight_object *list = NULL;
	bool no_wait = a->options.flags & CSIGHT_NO_WAIT;
	size_t n = 0;
	int status = wait_for_group(c, name, g->n - failed, failed, &list), rc;

	for (size_t i = 0; list && i < csight_count(list, "snapshots"); i++) {
		const struct csight_object *s = csight_item(list, "snapshots", i);
		_cleanup_object_ struct csight_object *done = NULL;

		if (!has_group(s, name))
			continue;
		n++;
		rc = no_wait ? 0 : csight_wait(c->daemon, csight_text(s, "id"), client_progress, c, &done);
		client_progress_end(c);
		if (rc < 0)
			return client_daemon_failed(c, rc);
		rc = client_report_snapshot(c, stdout, done ? done : s);
		status = status ? status : rc;
	}
	if (n < g->n) {
		client_error("%zu of %zu processes of the group have no snapshot: csightd's log has the reasons",
			     g->n - n, g->n);
		return STATUS_FAILED;
	}
	if (!c->json && !c->quiet)
		printf("view all with: csight show " GROUP_PREFIX "%s\n", name);
	return status;
}

int group_snapshot(struct client *c, struct client_annotation *a, const struct group_pids *g)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	char name[NAME_SIZE], label[NAME_SIZE + 8];
	int rc;

	for (size_t i = 0; i < a->n; i++)
		if (strncmp(a->labels[i], "group=", strlen("group=")) == 0)
			return client_usage(c, "--label: 'group' is the label that names the group of these snapshots");
	hex_random(name, sizeof(name));
	snprintf(label, sizeof(label), "group=%s", name);
	rc = client_add_label(c, a, label);
	if (rc != 0)
		return rc;
	rc = group_call_snapshot(c->daemon, &(struct group_call){ .pids = g->pids, .n = g->n, .options = &a->options },
				 &snapshot);
	if (rc == 0)
		return report_group(c, a, g, name, false);
	client_daemon_failed(c, rc);
	/* csightd has begun the snapshots of the others already. */
	if (g->n > 1)
		report_group(c, a, g, name, true);
	return STATUS_FAILED;
}

struct group_stores {
	struct store *stores[GROUP_PIDS_MAX];
	int fds[GROUP_PIDS_MAX];
	size_t n;
};

static void group_stores_done(struct group_stores *g)
{
	for (size_t i = 0; i < g->n; i++) {
		store_close(g->stores[i]);
		close(g->fds[i]);
	}
}

static int open_store_of(struct client *c, const char *id, struct group_stores *g)
{
	_cleanup_object_ struct csight_object *done = NULL;
	int fd, rc = csight_wait(c->daemon, id, client_progress, c, &done);

	client_progress_end(c);
	if (rc == 0)
		rc = csight_open_file(c->daemon, id, "store", &fd);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	rc = store_open(fd, &g->stores[g->n]);
	if (rc == 0) {
		g->fds[g->n++] = fd;
		return 0;
	}
	close(fd);
	client_error("cannot read the store of %s: %s", esc(id), strerror(-rc));
	return STATUS_FAILED;
}

int group_open_store(struct client *c, const char *name, int *ret_fd)
{
	_cleanup_(group_stores_done) struct group_stores g = { .n = 0 };
	_cleanup_object_ struct csight_object *list = NULL;
	const char *group = name + strlen(GROUP_PREFIX);
	_cleanup_close_ int fd = -1;
	int rc = client_connect(c);

	if (rc == 0)
		rc = client_list(c, &list);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < csight_count(list, "snapshots") && g.n < GROUP_PIDS_MAX; i++) {
		const struct csight_object *s = csight_item(list, "snapshots", i);

		if (has_group(s, group) && (rc = open_store_of(c, csight_text(s, "id"), &g)) != 0)
			return rc;
	}
	if (!g.n) {
		client_error("no snapshot has the label group=%s", esc(group));
		return STATUS_NOT_FOUND;
	}
	fd = io_temporary();
	rc = fd < 0 ? fd : store_merge(g.stores, g.n, name, fd);
	if (rc == 0) {
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	client_error("cannot join the timelines of %s: %s", esc(name),
		     rc == -EXDEV ? "the processes have no common clock; start them with csight run --clock=wall"
				  : strerror(-rc));
	return STATUS_FAILED;
}
