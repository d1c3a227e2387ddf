/* SPDX-License-Identifier: MIT */
/* Calls of the daemon that verbs share. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/format.h"
#include "client/private-daemon.h"
#include "lib/base/escape.h"
#include "lib/base/path.h"

int client_daemon_failed(struct client *c, int rc)
{
	char csightd[4096];

	client_error("%s", csight_error(c->daemon));
	switch (rc) {
	case -ENOTCONN:
		/* In a build tree the daemon is beside this program and not on the PATH. */
		if (path_helper("csightd", "/nonexistent", csightd, sizeof(csightd)) < 0)
			strcpy(csightd, "csightd");
		client_error("start one for yourself with '%s &', or the system's with 'systemctl start csightd'",
			     esc(csightd));
		return STATUS_NO_DAEMON;
	case -EACCES:
	case -EPERM:
		return STATUS_DENIED;
	case -ESRCH:
	case -ENOENT:
		return STATUS_NOT_FOUND;
	case -EBUSY:
		client_error("'csight wait ID' waits until it is decoded, and prints why if that fails");
		return STATUS_FAILED;
	default:
		return STATUS_FAILED;
	}
}

int client_connect(struct client *c)
{
	int rc = c->daemon ? 0 : csight_open(c->socket, &c->daemon);

	if (rc == 0)
		return 0;
	client_error("cannot find the socket of csightd: %s", strerror(-rc));
	return STATUS_FAILED;
}

int client_start_daemon(struct client *c)
{
	static struct private_daemon private;
	const char *socket = getenv("CSIGHT_SOCKET");

	if (c->socket || (socket && *socket))
		return -ENOTCONN;
	if (private_daemon_start(&private) < 0)
		return STATUS_NO_DAEMON;
	c->private = &private;
	c->daemon = csight_close(c->daemon);
	c->socket = private.socket;
	return client_connect(c);
}

/* True if a daemon of the user, perhaps one that ran for a command, has left snapshots. */
static bool user_has_snapshots(void)
{
	char path[4096];
	const struct dirent *entry;
	bool found = false;
	DIR *dir;

	dir = path_user_spool(path, sizeof(path)) < 0 ? NULL : opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = isdigit((unsigned char)entry->d_name[0]);
	if (dir)
		closedir(dir);
	return found;
}

int client_list(struct client *c, struct csight_object **ret)
{
	int started = -ENOTCONN, rc = csight_list(c->daemon, ret);

	if (rc == -ENOTCONN && user_has_snapshots())
		started = client_start_daemon(c);
	if (started > 0)
		return started;
	if (started == 0) {
		client_error("no csightd answers: these snapshots are your own ones");
		rc = csight_list(c->daemon, ret);
	}
	return rc < 0 ? client_daemon_failed(c, rc) : 0;
}

/* Finds the running target whose name matches the pattern. Returns 0 or an exit status. */
static int find_by_name(struct client *c, const char *pattern, pid_t *ret)
{
	_cleanup_object_ struct csight_object *list = NULL;
	int rc = csight_targets(c->daemon, &list);
	size_t found = 0;

	if (rc < 0)
		return client_daemon_failed(c, rc);
	for (size_t i = 0; i < csight_count(list, "targets"); i++) {
		const struct csight_object *t = csight_item(list, "targets", i);
		const char *name = csight_text(t, "name");

		if (!csight_flag(t, "running") || !name || fnmatch(pattern, name, 0) != 0)
			continue;
		*ret = (pid_t)csight_number(t, "pid", 0);
		found++;
	}
	if (found == 1)
		return 0;
	client_error(found ? "several armed processes match '%s'; choose one with --pid: 'csight targets' lists them"
			   : "no armed process matches '%s'; 'csight targets' lists them",
		     esc(pattern));
	return STATUS_NOT_FOUND;
}

int client_find_process(struct client *c, const char *option, pid_t *ret)
{
	/* Names may begin with digits. */
	if (!option && c->argc == 1 && c->argv[0][strspn(c->argv[0], "0123456789")])
		return find_by_name(c, c->argv[0], ret);
	return client_pid(c, option, ret);
}

static void print_ambiguous(const char *name, const struct csight_object *list)
{
	client_error("more than one snapshot begins with '%s':", esc(name));
	for (size_t i = 0; i < csight_count(list, "snapshots"); i++) {
		const char *id = csight_text(csight_item(list, "snapshots", i), "id");

		if (id && strncmp(id, name, strlen(name)) == 0)
			fprintf(stderr, "  %s\n", esc(id));
	}
}

int client_find(struct client *c, const char *name, struct csight_object **ret)
{
	_cleanup_object_ struct csight_object *list = NULL;
	const char *id = NULL, *found = NULL, *where;
	char spool[4096];
	size_t n, matches = 0;
	int rc;

	rc = client_list(c, &list);
	if (rc != 0)
		return rc;
	where = c->private && path_user_spool(spool, sizeof(spool)) == 0 ? spool : csight_socket(c->daemon);
	n = csight_count(list, "snapshots");
	for (size_t i = 0; i < n; i++) {
		id = csight_text(csight_item(list, "snapshots", i), "id");
		if (!id)
			continue;
		if (strcmp(id, name) == 0 || (strcmp(name, "last") == 0 && i + 1 == n)) {
			found = id;
			matches = 1;
			break;
		}
		if (*name && strncmp(id, name, strlen(name)) == 0) {
			found = id;
			matches++;
		}
	}
	if (matches > 1) {
		print_ambiguous(name, list);
		return STATUS_NOT_FOUND;
	}
	if (!found) {
		if (strcmp(name, "last") == 0)
			client_error("no snapshot yet at %s; take one with 'csight snapshot --pid N'", esc(where));
		else
			client_error("no snapshot at %s begins with '%s'%s; 'csight list' shows your snapshots",
				     esc(where), esc(name),
				     strstr(c->verb->arguments, "FILE") ? ", and no file has this name" : "");
		return STATUS_NOT_FOUND;
	}
	/* The snapshot may have changed since the list was made. */
	rc = csight_get(c->daemon, found, ret);
	return rc < 0 ? client_daemon_failed(c, rc) : 0;
}

int client_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	const struct client *c = userdata;

	if (c->quiet || !isatty(STDERR_FILENO))
		return 0;
	fprintf(stderr, "\r\033[K%s",
		strcmp(phase, "waiting") == 0 ? "waiting for room, which other snapshots use" : esc(phase));
	if (total)
		fprintf(stderr, " %d %%", (int)(100.0 * (double)MIN(done, total) / (double)total));
	return 0;
}

void client_progress_end(struct client *c)
{
	if (!c->quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

bool client_begin_query(struct client *c)
{
	const char *value;

	if (client_option(c, &value) == CLIENT_STOP)
		return false;
	c->status = c->argc ? client_usage(c, "unexpected argument '%s'", esc(c->argv[0])) : client_connect(c);
	return c->status == STATUS_OK;
}

bool client_query(struct client *c, int (*call)(struct csight *c, struct csight_object **ret),
		  struct csight_object **ret)
{
	int rc;

	if (!client_begin_query(c))
		return false;
	rc = call(c->daemon, ret);
	if (rc < 0)
		c->status = client_daemon_failed(c, rc);
	else if (c->json)
		client_print_json_text(csight_json(*ret));
	return rc == 0 && !c->json;
}
