/* SPDX-License-Identifier: MIT */
/*
 * A forked process has the code mappings of its parent. The records of a file are in order of time for each CPU alone,
 * so those of mappings and forks are sorted first.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/base/hash.h"
#include "lib/base/util.h"
#include "lib/perfdata/file.h"

enum { EACH_MAX = 1024, ALL_MAX = 1 << 20 };

enum map_change_kind { MAPS_AT_TIME, FORKS, MAPS_LATER };

/* A mapping of code, or a fork. */
struct map_change {
	uint64_t time;
	enum map_change_kind kind;
	uint32_t index; /* in MAPS, or in TASKS */
};

struct inheritance {
	struct pd_file *file;
	struct hash heads; /* by process: one plus the number of its latest mapping of code, in MAPS */
	struct buf before; /* by mapping: the same of the one before it; 0: there is none */
	size_t inherited;
};

static int compare_changes(const void *left, const void *right)
{
	const struct map_change *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return (a->index > b->index) - (a->index < b->index);
}

static int link_map(struct inheritance *in, uint32_t pid, uint32_t index)
{
	uint32_t *head, *before = (uint32_t *)in->before.data;
	int rc = hash_find(&in->heads, pid, 0, &head);

	if (rc < 0)
		return rc;
	before[index] = rc == 0 ? *head : 0;
	*head = index + 1;
	return 0;
}

/* Copies the code mappings of its parent to a forked process. */
static int inherit(struct inheritance *in, const struct pd_task *t)
{
	struct buf *maps = &in->file->lists[MAPS];
	uint32_t found[EACH_MAX], *head = hash_get(&in->heads, t->ppid, 0);
	size_t n = 0;
	int rc = 0;

	for (uint32_t at = head ? *head : 0; at && n < EACH_MAX; at = ((const uint32_t *)in->before.data)[at - 1])
		found[n++] = at - 1;
	if (in->inherited + n > ALL_MAX)
		return 0;
	in->inherited += n;
	while (n-- > 0 && rc == 0) {
		struct pd_map m = ((const struct pd_map *)maps->data)[found[n]];

		m.pid = t->pid;
		m.tid = t->tid;
		m.time = t->time;
		buf_add(maps, &m, sizeof(m));
		buf_u32(&in->before, 0);
		rc = buf_error(maps) ? buf_error(maps) : buf_error(&in->before);
		if (rc == 0)
			rc = link_map(in, t->pid, (uint32_t)(maps->size / sizeof(m)) - 1);
	}
	return rc;
}

/* Returns what a mapping changes. Without a time of its own it is later than the fork before it in the file. */
static struct map_change change_of_map(const struct pd_file *f, uint32_t index)
{
	const struct pd_map *m = &((const struct pd_map *)f->lists[MAPS].data)[index];
	uint32_t tasks = ((const uint32_t *)f->lists[TASKS_BEFORE].data)[index];

	if (m->time || !tasks)
		return (struct map_change){ m->time, MAPS_AT_TIME, index };
	return (struct map_change){ ((const struct pd_task *)f->lists[TASKS].data)[tasks - 1].time, MAPS_LATER, index };
}

/* Lists the changes in order of time. Returns NULL without memory. */
static struct map_change *sort_changes(const struct pd_file *f, size_t *ret_n)
{
	const struct pd_map *maps = (const struct pd_map *)f->lists[MAPS].data;
	const struct pd_task *tasks = (const struct pd_task *)f->lists[TASKS].data;
	size_t n_maps = f->lists[MAPS].size / sizeof(*maps), n_tasks = f->lists[TASKS].size / sizeof(*tasks), n = 0;
	struct map_change *list = calloc(n_maps + n_tasks + 1, sizeof(*list));

	for (size_t i = 0; list && i < n_maps; i++)
		if (maps[i].prot & PROT_EXEC)
			list[n++] = change_of_map(f, (uint32_t)i);
	for (size_t i = 0; list && i < n_tasks; i++)
		if (!tasks[i].exit && tasks[i].pid != tasks[i].ppid)
			list[n++] = (struct map_change){ tasks[i].time, FORKS, (uint32_t)i };
	if (list && n)
		qsort(list, n, sizeof(*list), compare_changes);
	*ret_n = n;
	return list;
}

int pd_inherit_maps(struct pd_file *f)
{
	struct inheritance in = { .file = f };
	size_t n, n_maps = f->lists[MAPS].size / sizeof(struct pd_map);
	struct map_change *list = sort_changes(f, &n);
	int rc = list ? 0 : -ENOMEM;

	buf_zero(&in.before, n_maps * sizeof(uint32_t));
	rc = rc == 0 ? buf_error(&in.before) : rc;
	for (size_t i = 0; i < n && rc == 0; i++) {
		uint32_t index = list[i].index;

		if (list[i].kind == FORKS)
			rc = inherit(&in, &((const struct pd_task *)f->lists[TASKS].data)[index]);
		else
			rc = link_map(&in, ((const struct pd_map *)f->lists[MAPS].data)[index].pid, index);
	}
	free(list);
	hash_done(&in.heads);
	buf_done(&in.before);
	return rc;
}
