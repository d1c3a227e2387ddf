/* SPDX-License-Identifier: MIT */
/*
 * children PID prints the child processes of PID. children --wait PID waits until there is one. children --kill N PID
 * kills the next N children as soon as each exists; --stop N PID sends them SIGSTOP instead.
 */
#include "config.h"

#include <signal.h>
#include <string.h>

#include "lib/base/util.h"

static pid_t parent_of(const char *pid)
{
	char path[300], text[512], *rest;
	_cleanup_fclose_ FILE *f = NULL;
	size_t n;
	int parent = 0;
	char state;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	/* The name in parentheses may contain any character. */
	rest = strrchr(text, ')');
	/* Zombies are not counted. */
	if (!rest || sscanf(rest + 1, " %c %d", &state, &parent) != 2 || state == 'Z')
		parent = 0;
	return parent;
}

static pid_t find_child(pid_t parent, bool print)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9' || parent_of(e->d_name) != parent)
			continue;
		found = atoi(e->d_name);
		if (print)
			printf("%d\n", (int)found);
	}
	return found;
}

static pid_t next_child(pid_t parent, pid_t except)
{
	for (int n = 0; n < 30000; n++) {
		pid_t child = find_child(parent, false);

		if (child && child != except)
			return child;
		usleep(2000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pid_t parent = argc > 1 ? atoi(argv[argc - 1]) : 0, child = 0;
	bool stop = argc > 1 && strcmp(argv[1], "--stop") == 0;

	if (parent <= 0)
		return 2;
	if (argc == 2)
		return find_child(parent, true) ? 0 : 1;
	if (strcmp(argv[1], "--wait") == 0)
		return next_child(parent, 0) ? 0 : 1;
	for (int n = atoi(argv[2]); n > 0; n--) {
		child = next_child(parent, child);
		/* A child that is stopped before it has set its parent-death signal would outlive its parent. */
		if (child && stop)
			usleep(50000);
		if (!child || kill(child, stop ? SIGSTOP : SIGKILL) < 0)
			return 1;
	}
	return 0;
}
