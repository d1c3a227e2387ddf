/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>

#include "daemon/capture/perf/process-table.h"
#include "lib/base/util.h"

enum { BUCKETS = 4096, ENDED_MAX = 64 };

struct process_entry {
	struct process_entry *next;
	struct thread_table thread_table;
};

struct process_table {
	struct process_entry *buckets[BUCKETS];
	uint64_t since;
};

int process_table_new(struct process_table **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static void remove_all(struct process_table *b)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		while (b->buckets[i]) {
			struct process_entry *one = b->buckets[i];

			b->buckets[i] = one->next;
			thread_table_done(&one->thread_table);
			free(one);
		}
}

struct process_table *process_table_free(struct process_table *b)
{
	if (!b)
		return NULL;
	remove_all(b);
	free(b);
	return NULL;
}

static struct process_entry **find_place(struct process_table *b, uint32_t pid)
{
	struct process_entry **at = &b->buckets[pid % BUCKETS];

	while (*at && (*at)->thread_table.pid != pid)
		at = &(*at)->next;
	return at;
}

/* Adds an entry where find_place() returned an empty place. */
static bool add_entry(struct process_entry **at, uint32_t pid)
{
	*at = calloc(1, sizeof(**at));
	if (*at)
		thread_table_init(&(*at)->thread_table, pid);
	return *at != NULL;
}

void process_table_reset(struct process_table *b, uint64_t now)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	struct dirent *e;

	remove_all(b);
	b->since = now;
	while (proc && (e = readdir(proc))) {
		uint32_t pid = (uint32_t)strtoul(e->d_name, NULL, 10);

		if (pid && !*find_place(b, pid))
			add_entry(find_place(b, pid), pid);
	}
}

static void remove_entry(struct process_entry **at)
{
	struct process_entry *one = *at;

	*at = one->next;
	thread_table_done(&one->thread_table);
	free(one);
}

void process_table_record(struct process_table *b, uint32_t pid, const struct perf_record *r)
{
	struct process_entry **at = find_place(b, pid);

	bool new = !*at;

	if (new && !add_entry(at, pid))
		return;
	thread_table_fold(&(*at)->thread_table, r);
	thread_table_limit(&(*at)->thread_table, ENDED_MAX);
	/*
	 * The first record of an unknown process counts only if it is a fork or an exec: only these show since when it
	 * has been this program.
	 */
	if ((*at)->thread_table.ended || (new && !(*at)->thread_table.since))
		remove_entry(at);
}

uint64_t process_table_take(struct process_table *b, uint32_t pid, struct thread_table *ret)
{
	struct process_entry **at = find_place(b, pid);

	if (!*at) {
		thread_table_init(ret, pid);
		return 0;
	}
	*ret = (*at)->thread_table;
	(*at)->thread_table = (struct thread_table){ 0 };
	remove_entry(at);
	thread_table_exec_checked(ret);
	/* Meanwhile its former thread numbers may have been reused by other processes. */
	thread_table_lost_records(ret, 0);
	return MAX(b->since, ret->since);
}

void process_table_put_back(struct process_table *b, struct thread_table *t)
{
	struct process_entry **at = find_place(b, t->pid);

	thread_table_disown(t, 0);
	if (!*at && !t->ended && (*at = calloc(1, sizeof(**at)))) {
		(*at)->thread_table = *t;
		*t = (struct thread_table){ 0 };
	}
	thread_table_done(t);
}
