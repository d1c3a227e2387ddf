/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/capture/process/process-threads.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum { ROUNDS_MAX = 32 };

struct tid_list {
	uint32_t *list;
	size_t n, room;
};

static bool has_tid(const struct tid_list *t, uint32_t tid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->list[i] == tid)
			return true;
	return false;
}

static int add_tid(struct tid_list *t, uint32_t tid)
{
	int rc = array_reserve(t->list, t->n, &t->room);

	if (rc == 0)
		t->list[t->n++] = tid;
	return rc;
}

/* Returns 1 if there were new threads. */
static int visit_new(pid_t pid, uint32_t only, process_threads_fn visit, void *data, struct tid_list *seen)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	char path[64];
	bool new = false, later = seen->n > 0;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while (rc == 0 && (e = readdir(dir))) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);

		if (!tid || (only && tid != only) || has_tid(seen, tid))
			continue;
		new = true;
		rc = add_tid(seen, tid);
		if (rc == 0)
			rc = visit(data, tid, later);
	}
	return rc < 0 ? rc : new;
}

int process_threads_visit(pid_t pid, uint32_t only, process_threads_fn visit, void *data)
{
	struct tid_list seen = { 0 };
	int rc = 1;

	for (unsigned i = 0; i < ROUNDS_MAX && rc > 0; i++)
		rc = visit_new(pid, only, visit, data, &seen);
	free(seen.list);
	return MIN(rc, 0);
}
