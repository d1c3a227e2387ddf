/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/capture/perf/thread-table.h"
#include "lib/base/array.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { INTERVALS_MAX = 1 << 20 };

#define NO_CPU (UINT32_MAX - 1) /* UINT32_MAX: unknown */

void thread_table_init(struct thread_table *t, uint32_t pid)
{
	*t = (struct thread_table){ .pid = pid };
}

void thread_table_done(struct thread_table *t)
{
	free(t->list);
	free(t->spans);
	free(t->switches);
	hash_done(&t->newest);
	*t = (struct thread_table){ 0 };
}

static struct thread_entry *newest_of(struct thread_table *t, uint32_t tid)
{
	const uint32_t *index = hash_get(&t->newest, tid, 0);

	return index ? &t->list[*index] : NULL;
}

static struct thread_entry *former_of(struct thread_table *t, const struct thread_entry *k)
{
	return k->former ? &t->list[k->former - 1] : NULL;
}

/* The latest thread of this number that existed at this time; numbers are reused. */
struct thread_entry *thread_table_find(struct thread_table *t, uint32_t tid, uint64_t at)
{
	for (struct thread_entry *k = newest_of(t, tid); k; k = former_of(t, k))
		if (k->start <= at && (!k->end || k->end >= at))
			return k;
	return NULL;
}

/* Only the last thread of a number may be alive. */
static struct thread_entry *find_alive(struct thread_table *t, uint32_t tid)
{
	struct thread_entry *k = newest_of(t, tid);

	return k && !k->end ? k : NULL;
}

/* Makes an entry the last one of its number. */
static int index_entry(struct thread_table *t, uint32_t index)
{
	struct thread_entry *k = &t->list[index];
	uint32_t *last;
	int rc = hash_find(&t->newest, k->tid, 0, &last);

	if (rc < 0)
		return rc;
	k->former = rc == 0 ? 1 + *last : 0;
	*last = index;
	return 0;
}

static void drop_ended(struct thread_table *t, uint64_t before, size_t keep)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct thread_entry *k = &t->list[i];

		if (k->end && ((k->end < before && !(k->lingers && k->until >= before)) || t->n_ended > keep)) {
			t->dropped |= k->end >= before;
			t->n_ended--;
		} else {
			t->list[kept++] = *k;
		}
	}
	if (kept == t->n)
		return;
	t->n = kept;
	/* The table has room for as many as before. */
	hash_clear(&t->newest);
	for (size_t i = 0; i < t->n; i++)
		index_entry(t, (uint32_t)i);
}

void thread_table_limit(struct thread_table *t, size_t n_ended)
{
	if (t->n_ended > n_ended)
		drop_ended(t, 0, n_ended / 2);
}

static struct thread_entry *add_thread(struct thread_table *t, uint32_t tid)
{
	thread_table_limit(t, THREAD_TABLE_ENDED_MAX);
	if (array_reserve(t->list, t->n, &t->room) < 0) {
		t->dropped = true;
		return NULL;
	}
	t->list[t->n] = (struct thread_entry){ .tid = tid };
	if (index_entry(t, (uint32_t)t->n) < 0) {
		t->dropped = true;
		return NULL;
	}
	return &t->list[t->n++];
}

static void end_thread(struct thread_table *t, struct thread_entry *k, uint64_t time)
{
	if (!k || k->end)
		return;
	k->end = MAX(time, k->start + 1);
	t->n_ended++;
}

static void cut_number_use(struct thread_table *t, uint64_t time)
{
	for (size_t i = 0; i < t->n; i++)
		t->list[i].until = MIN(t->list[i].until, time);
}

static bool end_number_use(struct thread_table *t, uint32_t tid, uint64_t time)
{
	bool used = false;

	for (struct thread_entry *k = newest_of(t, tid); k; k = former_of(t, k))
		if (k->until > time) {
			k->until = time;
			used = true;
		}
	return used;
}

/*
 * The program executed last was replaced before its credentials could be read. If a program gains privileges by an
 * exec, the kernel records an EXIT before it runs; so a program executed by the owner's program was the owner's until
 * further notice.
 */
static void settle_last_exec(struct thread_table *t)
{
	if (t->execs && t->exec_owned)
		thread_table_own(t, t->last_exec);
	else if (t->execs)
		t->owner_unknown = true;
}

static void fold_task(struct thread_table *t, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	uint32_t pid, ppid, tid, ptid;
	struct thread_entry *k;

	if (rd_u32(&body, &pid) < 0 || rd_u32(&body, &ppid) < 0 || rd_u32(&body, &tid) < 0 || rd_u32(&body, &ptid) < 0)
		return;
	k = find_alive(t, tid);
	if (r->type == PERF_RECORD_EXIT) {
		end_thread(t, k, r->origin.time);
		if (k)
			k->until = UINT64_MAX;
		t->ended = t->n == t->n_ended;
		if (t->ended) {
			settle_last_exec(t);
			thread_table_disown(t, r->origin.time);
		}
		return;
	}
	/* /proc may show the thread before its record is read. */
	if (!k) {
		const struct thread_entry *parent = find_alive(t, ptid);
		char name[CAPTURE_NAME_SIZE] = "";

		if (parent)
			memcpy(name, parent->name, sizeof(name));
		k = add_thread(t, tid);
		if (!k)
			return;
		memcpy(k->name, name, sizeof(k->name));
	}
	end_number_use(t, tid, r->origin.time);
	k->born = true;
	k->parent = ptid;
	k->start = r->origin.time;
	t->ended = false;
	if (tid == t->pid)
		t->since = r->origin.time;
}

bool thread_table_note_fork(struct thread_table *t, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	uint32_t ids[3];

	return rd_u32(&body, &ids[0]) == 0 && rd_u32(&body, &ids[1]) == 0 && rd_u32(&body, &ids[2]) == 0 &&
	       end_number_use(t, ids[2], r->origin.time);
}

void thread_table_add(struct thread_table *t, const struct thread_entry *k)
{
	struct thread_entry *to = find_alive(t, k->tid) ? NULL : add_thread(t, k->tid);

	if (!to)
		return;
	to->start = k->start;
	memcpy(to->name, k->name, sizeof(to->name));
	to->name[sizeof(to->name) - 1] = 0;
}

static void keep_number(struct thread_table *t, struct thread_entry *k)
{
	for (size_t i = 0; i < t->n; i++)
		t->list[i].lingers = false;
	k->lingers = true;
	k->until = UINT64_MAX;
}

/*
 * On exec all other threads end, and the executing thread takes the number of the first: it is the one that had not
 * ended.
 */
static void fold_exec(struct thread_table *t, uint64_t time)
{
	bool by_another = !find_alive(t, t->pid);

	for (size_t i = 0; i < t->n; i++) {
		struct thread_entry *k = &t->list[i];

		if (k->tid == t->pid || k->end)
			continue;
		end_thread(t, k, time);
		if (!by_another)
			continue;
		keep_number(t, k);
	}
	if (by_another) {
		struct thread_entry *k = add_thread(t, t->pid);

		if (k)
			k->start = time;
	}
	settle_last_exec(t);
	t->exec_owned = t->privileges_recorded && thread_table_owned(t, time);
	t->execs++;
	t->last_exec = time;
	t->since = time;
	t->ended = false;
	thread_table_disown(t, time);
}

static void fold_name(struct thread_table *t, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	const char *name;
	uint32_t pid, tid;
	struct thread_entry *k;

	if (rd_u32(&body, &pid) < 0 || rd_u32(&body, &tid) < 0 || rd_str(&body, &name) < 0)
		return;
	if (r->misc & PERF_RECORD_MISC_COMM_EXEC)
		fold_exec(t, r->origin.time);
	k = find_alive(t, tid);
	if (k)
		snprintf(k->name, sizeof(k->name), "%s", name);
}

static void drop_oldest_switch(struct thread_table *t)
{
	t->gone_until = MAX(t->gone_until, t->switches[t->first_switch].time);
	t->first_switch++;
}

static void add_switch(struct thread_table *t, const struct thread_switch *s)
{
	if (t->first_switch >= THREAD_TABLE_SWITCHES_MAX / 2) {
		memmove(t->switches, t->switches + t->first_switch,
			(t->n_switches - t->first_switch) * sizeof(*t->switches));
		t->n_switches -= t->first_switch;
		t->gone_switches += t->first_switch;
		t->first_switch = 0;
	}
	/* Without one, a thread would seem to have slept while it ran: none of those before it are kept. */
	if (array_reserve(t->switches, t->n_switches, &t->switches_room) < 0) {
		t->dropped = true;
		while (t->first_switch < t->n_switches)
			drop_oldest_switch(t);
		t->gone_switches++;
		t->gone_until = MAX(t->gone_until, s->time);
		return;
	}
	t->switches[t->n_switches++] = *s;
	if (t->n_switches - t->first_switch > THREAD_TABLE_SWITCHES_MAX)
		drop_oldest_switch(t);
}

static void fold_switch(struct thread_table *t, const struct perf_record *r)
{
	add_switch(t, &(struct thread_switch){
			  .time = r->origin.time,
			  .cpu = r->origin.cpu,
			  .tid = r->origin.tid,
			  .misc = r->misc & (PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT),
		      });
}

/* A switch in at that moment, on no CPU that exists, ends the pause of a thread that may have run since. */
void thread_table_lost_switches(struct thread_table *t, uint64_t since, uint32_t cpu)
{
	if (cpu != UINT32_MAX)
		add_switch(t, &(struct thread_switch){ .time = since, .cpu = cpu, .tid = UINT32_MAX, .lost = true });
	for (size_t i = 0; i < t->n; i++)
		if (!t->list[i].end)
			add_switch(t, &(struct thread_switch){ .time = since, .cpu = NO_CPU, .tid = t->list[i].tid });
}

void thread_table_fold(struct thread_table *t, const struct perf_record *r)
{
	switch (r->type) {
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		fold_task(t, r);
		break;
	case PERF_RECORD_COMM:
		fold_name(t, r);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		fold_switch(t, r);
		break;
	}
}

static void read_name(DIR *thread_table, uint32_t tid, char ret[CAPTURE_NAME_SIZE])
{
	char path[32], text[CAPTURE_NAME_SIZE];

	snprintf(path, sizeof(path), "%u/comm", tid);
	if (proc_file_read(dirfd(thread_table), path, text, sizeof(text)) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	memcpy(ret, text, CAPTURE_NAME_SIZE);
}

int thread_table_scan(struct thread_table *t, uint64_t now)
{
	_cleanup_closedir_ DIR *dir = NULL;
	_cleanup_free_ bool *seen = NULL;
	size_t before;
	char path[64];
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%u/task", t->pid);
	dir = opendir(path);
	/* Only a process that no longer exists has no threads. */
	if (!dir && errno != ENOENT)
		return -errno;
	thread_table_limit(t, THREAD_TABLE_ENDED_MAX);
	before = t->n;
	seen = calloc(before + 1, sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	while (dir && (e = readdir(dir))) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);
		struct thread_entry *k = tid ? find_alive(t, tid) : NULL;

		if (!k && tid && (k = add_thread(t, tid)))
			k->start = before ? now : 0;
		if (k && (size_t)(k - t->list) < before)
			seen[k - t->list] = true;
		if (k && !*k->name)
			read_name(dir, tid, k->name);
	}
	for (size_t i = 0; i < MIN(before, t->n); i++)
		if (!seen[i])
			end_thread(t, &t->list[i], now);
	t->ended = t->n == t->n_ended;
	return dir ? 0 : -ESRCH;
}

void thread_table_own(struct thread_table *t, uint64_t from)
{
	if (t->n_spans && t->spans[t->n_spans - 1].to >= from) {
		t->spans[t->n_spans - 1].to = UINT64_MAX;
		return;
	}
	if (t->n_spans == THREAD_TABLE_SPANS_MAX) {
		memmove(t->spans, t->spans + 1, --t->n_spans * sizeof(*t->spans));
		t->dropped = true;
	}
	if (array_reserve(t->spans, t->n_spans, &t->spans_room) < 0) {
		t->dropped = true;
		return;
	}
	t->spans[t->n_spans++] = (struct owner_span){ from, UINT64_MAX };
}

void thread_table_disown(struct thread_table *t, uint64_t from)
{
	while (t->n_spans && t->spans[t->n_spans - 1].from >= from)
		t->n_spans--;
	if (t->n_spans)
		t->spans[t->n_spans - 1].to = MIN(t->spans[t->n_spans - 1].to, from);
}

void thread_table_lost_records(struct thread_table *t, uint64_t since)
{
	thread_table_disown(t, since);
	cut_number_use(t, since);
	t->exec_owned = false;
}

bool thread_table_owned(const struct thread_table *t, uint64_t at)
{
	for (size_t i = 0; i < t->n_spans; i++)
		if (t->spans[i].from <= at && at < t->spans[i].to)
			return true;
	return false;
}

void thread_table_exec_checked(struct thread_table *t)
{
	t->execs = 0;
	t->last_exec = 0;
}

void thread_table_forget(struct thread_table *t, uint64_t before)
{
	size_t gone = 0;

	drop_ended(t, before, SIZE_MAX);
	while (gone < t->n_spans && t->spans[gone].to < before)
		gone++;
	t->n_spans -= gone;
	if (gone)
		memmove(t->spans, t->spans + gone, t->n_spans * sizeof(*t->spans));
	/* The last switch before the limit shows which thread was running. */
	while (t->first_switch + 1 < t->n_switches && t->switches[t->first_switch + 1].time < before)
		t->first_switch++;
}

int thread_table_threads(const struct thread_table *t, struct capture_thread **ret, size_t *ret_n)
{
	struct capture_thread *list = calloc(t->n + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		const struct thread_entry *k = &t->list[i];

		list[i] = (struct capture_thread){ .tid = k->tid,
						   .start_ns = k->start,
						   .end_ns = k->end,
						   .written = k->written,
						   .running = !k->end,
						   .acknowledged = true };
		memcpy(list[i].name, k->name, sizeof(list[i].name));
	}
	*ret = list;
	*ret_n = t->n;
	return 0;
}

/* Of the spans from a number on. */
static int list_intervals(const struct thread_table *t, size_t first, uint64_t until, struct capture_interval **ret,
			  size_t *ret_n)
{
	_cleanup_free_ struct capture_interval *list = NULL;
	size_t n = 0, room = 0;

	for (size_t i = 0; i < t->n; i++)
		for (size_t s = first; s < t->n_spans; s++) {
			const struct thread_entry *k = &t->list[i];
			uint64_t from = MAX(k->start, t->spans[s].from);
			uint64_t to = MIN(MIN(k->end ? MAX(k->end, k->until) : until, t->spans[s].to), until);

			if (from >= to)
				continue;
			if (n >= INTERVALS_MAX || array_reserve(list, n, &room) < 0)
				return n >= INTERVALS_MAX ? -E2BIG : -ENOMEM;
			list[n++] = (struct capture_interval){ k->tid, from, to };
		}
	*ret = TAKE_PTR(list);
	*ret_n = n;
	return 0;
}

int thread_table_intervals(struct thread_table *t, uint64_t until, struct capture_interval **ret, size_t *ret_n)
{
	int rc = list_intervals(t, 0, until, ret, ret_n);

	if (rc != -E2BIG)
		return rc;
	/* Only of the newest spans. A program must not be able to choose that no copy of it is made. */
	t->dropped = true;
	return list_intervals(t, t->n_spans - MIN(t->n_spans, INTERVALS_MAX / t->n), until, ret, ret_n);
}

static void add_fork_or_exit(const struct thread_table *t, const struct thread_entry *k, uint32_t type, uint64_t time,
			     struct buf *b)
{
	struct {
		uint32_t pid, ppid, tid, ptid;
		uint64_t time;
	} body = { t->pid, t->pid, k->tid, k->parent ? k->parent : t->pid, time };
	struct pd_origin origin = { t->pid, type == PERF_RECORD_FORK ? body.ptid : k->tid, UINT32_MAX, time };

	capture_add_record(b, type, 0, &body, sizeof(body), &origin);
}

void thread_table_records(const struct thread_table *t, uint64_t since, struct buf *b)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct thread_entry *k = &t->list[i];

		if (k->born && k->tid != t->pid && k->start >= since)
			add_fork_or_exit(t, k, PERF_RECORD_FORK, k->start, b);
		if (k->end && k->end >= since)
			add_fork_or_exit(t, k, PERF_RECORD_EXIT, k->end, b);
	}
}

static void put_switch(const struct thread_table *t, const struct thread_switch *s, struct buf *b)
{
	/* The previous and next thread of a switch may belong to other users. */
	static const uint32_t others[2] = { UINT32_MAX, UINT32_MAX };
	/* The event, and how many records: neither is known. */
	static const uint64_t lost[2] = { 0, 1 };
	struct pd_origin origin = { t->pid, s->tid, s->cpu, s->time };

	if (s->lost)
		capture_add_record(b, PERF_RECORD_LOST, 0, lost, sizeof(lost), &origin);
	else
		capture_add_record(b, PERF_RECORD_SWITCH_CPU_WIDE, s->misc, others, sizeof(others), &origin);
}

void thread_table_switches(const struct thread_table *t, struct capture_records *position, struct buf *b)
{
	uint64_t at = position->switches, oldest = t->gone_switches + t->first_switch;
	size_t first = t->first_switch + (size_t)(at > oldest ? at - oldest : 0);

	/* As after lost ones: every thread may have run since then, or up to then. */
	for (size_t i = 0; (at ? at < oldest : t->gone_until > 0) && i < t->n; i++)
		put_switch(t,
			   &(struct thread_switch){
			       .time = at ? position->switched : t->gone_until, .cpu = NO_CPU, .tid = t->list[i].tid },
			   b);
	for (size_t i = first; i < t->n_switches; i++) {
		put_switch(t, &t->switches[i], b);
		/* They are in order of each CPU. */
		position->switched = MAX(position->switched, t->switches[i].time);
	}
	position->switches = t->gone_switches + t->n_switches;
}
