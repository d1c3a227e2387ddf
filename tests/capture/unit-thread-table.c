/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf: thread-table.c and process-table.c, with records of threads that begin, end and execute. */
#include "config.h"

#include <stdlib.h>

#include "daemon/capture/perf/process-table.h"
#include "daemon/capture/perf/thread-table.h"
#include "lib/base/util.h"
#include "tests/capture/perf-record.h"
#include "tests/unit.h"

static struct thread_table t;

static void life(uint32_t type, uint32_t tid, uint32_t parent, uint64_t time)
{
	const uint32_t body[6] = { 100, 100, tid, parent, 0, 0 };
	struct perf_record r = record(type, 0, body, sizeof(body), parent, time);

	thread_table_fold(&t, &r);
}

static void name(uint32_t tid, const char *text, bool exec, uint64_t time)
{
	struct {
		uint32_t pid, tid;
		char text[16];
	} body = { .pid = 100, .tid = tid };
	struct perf_record r =
	    record(PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0, &body, sizeof(body), tid, time);

	snprintf(body.text, sizeof(body.text), "%s", text);
	thread_table_fold(&t, &r);
}

enum { SWITCHES = 3 * THREAD_TABLE_SWITCHES_MAX };

static void fold_switches(uint64_t time)
{
	for (uint64_t i = 0; i < SWITCHES; i++) {
		const uint32_t next[2] = { 4242, 4242 };
		struct perf_record r = record(PERF_RECORD_SWITCH_CPU_WIDE, 0xffff, next, sizeof(next), 100, time + i);

		thread_table_fold(&t, &r);
	}
}

/* Where a recording lacks switches, each thread may have run since the last one that it has. */
static void test_position(struct buf *b)
{
	struct capture_records position = { 0 };
	const struct capture_record *first;
	size_t before;

	thread_table_switches(&t, &position, b);
	CHECK_EQ(position.switched, SWITCHES - 1);
	fold_switches(SWITCHES);
	before = b->size;
	thread_table_switches(&t, &position, b);
	first = (const void *)(b->data + before);
	CHECK(b->size > before && first->origin.time == SWITCHES - 1 && first->misc == 0);
	CHECK_EQ(position.switched, 2 * SWITCHES - 1);
	before = b->size;
	thread_table_switches(&t, &position, b);
	CHECK_EQ(b->size, before);
}

static void test_tasks(void)
{
	struct capture_interval *list;
	struct buf b = { 0 };
	size_t n;

	thread_table_init(&t, 100);
	life(PERF_RECORD_FORK, 100, 1, 5);
	thread_table_own(&t, 10);
	life(PERF_RECORD_FORK, 101, 100, 20);
	name(101, "worker", false, 21);
	life(PERF_RECORD_EXIT, 101, 100, 30);
	/* The number is reused by another thread. */
	life(PERF_RECORD_FORK, 101, 100, 40);
	CHECK_STR(thread_table_find(&t, 101, 25)->name, "worker");
	CHECK(thread_table_find(&t, 101, 35) == NULL);
	CHECK_EQ(thread_table_intervals(&t, 50, &list, &n), 0);
	CHECK_EQ(n, 3);
	CHECK(list[0].tid == 100 && list[0].from == 10 && list[0].to == 50);
	/* The first thread keeps the number until its reuse. */
	CHECK(list[1].tid == 101 && list[1].from == 20 && list[1].to == 40);
	CHECK(list[2].from == 40 && list[2].to == 50);
	free(list);
	/*
	 * Two execs before a check of the credentials: the owner of the interval between is unknown unless the kernel
	 * records gained privileges.
	 */
	name(100, "su", true, 60);
	CHECK(!t.owner_unknown);
	name(100, "cat", true, 70);
	CHECK(t.execs == 2 && t.last_exec == 70 && t.owner_unknown);
	CHECK(thread_table_owned(&t, 59) && !thread_table_owned(&t, 60) && !thread_table_owned(&t, 75));
	thread_table_exec_checked(&t);
	thread_table_own(&t, 70);
	CHECK(!thread_table_owned(&t, 65) && thread_table_owned(&t, 75));
	CHECK_EQ(thread_table_intervals(&t, 100, &list, &n), 0);
	CHECK_EQ(n, 4);
	CHECK(list[0].to == 60 && list[1].from == 70 && list[1].to == 100);
	CHECK(list[3].tid == 101 && list[3].to == 60);
	free(list);
	/* Lost records revoke the ownership since the loss. */
	thread_table_own(&t, 70);
	thread_table_disown(&t, 65);
	CHECK(thread_table_owned(&t, 59) && !thread_table_owned(&t, 75));
	life(PERF_RECORD_EXIT, 100, 100, 110);
	CHECK(t.ended);
	thread_table_records(&t, 0, &b);
	CHECK_EQ(b.size, 5 * (sizeof(struct capture_record) + 24));
	thread_table_forget(&t, 50);
	CHECK_EQ(t.n, 2);
	for (uint32_t i = 0; i < 3 * THREAD_TABLE_ENDED_MAX; i++) {
		life(PERF_RECORD_FORK, 1000 + i, 100, 200 + i);
		life(PERF_RECORD_EXIT, 1000 + i, 100, 201 + i);
	}
	CHECK(t.n <= THREAD_TABLE_ENDED_MAX + 2 && t.dropped);
	/* Switches were lost after 300: a thread that was out until then may have run. */
	t.n_switches = t.first_switch = 0;
	life(PERF_RECORD_FORK, 5000, 100, 290);
	thread_table_lost_switches(&t, 300, UINT32_MAX);
	CHECK_EQ(t.n_switches, t.n - t.n_ended);
	CHECK(t.switches[t.n_switches - 1].tid == 5000 && t.switches[t.n_switches - 1].time == 300 &&
	      t.switches[t.n_switches - 1].misc == 0);
	fold_switches(0);
	CHECK(t.n_switches - t.first_switch <= THREAD_TABLE_SWITCHES_MAX + 1 &&
	      t.switches_room <= 4 * THREAD_TABLE_SWITCHES_MAX);
	CHECK_EQ(t.gone_until, SWITCHES - THREAD_TABLE_SWITCHES_MAX - 1);
	buf_clear(&b);
	thread_table_records(&t, 0, &b);
	test_position(&b);
	CHECK(memmem(b.data, b.size, (const uint32_t[]){ 4242 }, 4) == NULL);
	buf_done(&b);
	thread_table_done(&t);
}

/* Several execs in succession, if the kernel records gained privileges. */
static void test_executed(void)
{
	struct capture_interval *list;
	size_t n;

	thread_table_init(&t, 100);
	t.privileges_recorded = true;
	life(PERF_RECORD_FORK, 100, 1, 5);
	thread_table_own(&t, 10);
	name(100, "sh", true, 60);
	CHECK(!thread_table_owned(&t, 65));
	name(100, "env", true, 70);
	CHECK(thread_table_owned(&t, 65) && !thread_table_owned(&t, 75));
	name(100, "cat", true, 80);
	CHECK(thread_table_owned(&t, 75) && !thread_table_owned(&t, 85) && !t.owner_unknown);
	/* The last program ended before a check; had it gained privileges, it would have run from now on. */
	life(PERF_RECORD_EXIT, 100, 100, 90);
	CHECK(t.ended && !t.owner_unknown);
	CHECK_EQ(thread_table_intervals(&t, 100, &list, &n), 0);
	CHECK(n == 1 && list[0].from == 10 && list[0].to == 90);
	free(list);
	thread_table_done(&t);
	/* A process that was not its owner's before does not become it by an exec. */
	thread_table_init(&t, 100);
	t.privileges_recorded = true;
	life(PERF_RECORD_FORK, 100, 1, 5);
	name(100, "sh", true, 60);
	name(100, "env", true, 70);
	life(PERF_RECORD_EXIT, 100, 100, 90);
	CHECK(!thread_table_owned(&t, 65) && !thread_table_owned(&t, 75) && t.owner_unknown);
	thread_table_done(&t);
}

/*
 * A thread that is not the first executes a program: its context ID stays until it is switched out, or until its number
 * is reused.
 */
static void test_number(void)
{
	const uint32_t stranger[6] = { 102, 1, 102, 1, 0, 0 };
	struct perf_record fork = record(PERF_RECORD_FORK, 0, stranger, sizeof(stranger), 1, 80);
	struct capture_interval *list;
	size_t n;

	thread_table_init(&t, 100);
	t.privileges_recorded = true;
	life(PERF_RECORD_FORK, 100, 1, 5);
	thread_table_own(&t, 10);
	life(PERF_RECORD_FORK, 101, 100, 20);
	life(PERF_RECORD_FORK, 102, 100, 30);
	life(PERF_RECORD_EXIT, 100, 100, 40);
	life(PERF_RECORD_EXIT, 101, 100, 45);
	name(100, "next", true, 50);
	name(100, "third", true, 60);
	CHECK_EQ(thread_table_intervals(&t, 70, &list, &n), 0);
	CHECK(n == 4 && list[1].tid == 101 && list[1].to == 60);
	CHECK(list[2].tid == 102 && list[2].from == 30 && list[2].to == 60);
	CHECK(list[3].tid == 100 && list[3].from == 50 && list[3].to == 60);
	free(list);
	thread_table_own(&t, 60);
	thread_table_note_fork(&t, &fork);
	CHECK_EQ(thread_table_intervals(&t, 100, &list, &n), 0);
	CHECK(n == 4 && list[2].tid == 102 && list[2].to == 80 && list[3].to == 100);
	free(list);
	/* The next exec gains privileges. */
	name(100, "su", true, 110);
	life(PERF_RECORD_EXIT, 100, 100, 111);
	CHECK_EQ(thread_table_intervals(&t, 200, &list, &n), 0);
	for (size_t i = 0; i < n; i++)
		CHECK(list[i].to <= 111);
	free(list);
	thread_table_done(&t);
	/* Likewise for the number it had before. */
	thread_table_init(&t, 100);
	t.privileges_recorded = true;
	life(PERF_RECORD_FORK, 100, 1, 5);
	thread_table_own(&t, 10);
	life(PERF_RECORD_FORK, 101, 100, 20);
	life(PERF_RECORD_EXIT, 100, 100, 40);
	name(100, "su", true, 50);
	life(PERF_RECORD_EXIT, 100, 100, 51);
	CHECK_EQ(thread_table_intervals(&t, 200, &list, &n), 0);
	for (size_t i = 0; i < n; i++)
		CHECK(list[i].to <= 51);
	free(list);
	thread_table_done(&t);
}

static void born(struct process_table *b, uint32_t type, uint32_t tid, uint64_t time)
{
	const uint32_t body[6] = { 100, 100, tid, 100, 0, 0 };
	struct perf_record r = record(type, 0, body, sizeof(body), 100, time);

	process_table_record(b, 100, &r);
}

static void executed(struct process_table *b, uint64_t time)
{
	const struct {
		uint32_t pid, tid;
		char name[8];
	} body = { 100, 100, "prog" };
	struct perf_record r = record(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &body, sizeof(body), 100, time);

	process_table_record(b, 100, &r);
}

static void test_births(void)
{
	struct process_table *b;

	CHECK_EQ(process_table_new(&b), 0);
	process_table_reset(b, 10);
	/* This process exists, and there are no records of it. */
	CHECK_EQ(process_table_take(b, (uint32_t)getpid(), &t), 10);
	CHECK_EQ(t.n, 0);
	thread_table_done(&t);
	CHECK_EQ(process_table_take(b, (uint32_t)getpid(), &t), 0);
	thread_table_done(&t);
	born(b, PERF_RECORD_FORK, 100, 20);
	executed(b, 30);
	born(b, PERF_RECORD_FORK, 101, 40);
	CHECK_EQ(process_table_take(b, 100, &t), 30);
	CHECK(t.n == 2 && t.list[1].start == 40 && t.execs == 0);
	thread_table_own(&t, 30);
	/* The process is no longer a target, and keeps its history. */
	process_table_put_back(b, &t);
	CHECK_EQ(process_table_take(b, 100, &t), 30);
	CHECK(t.n == 2 && !thread_table_owned(&t, 35));
	process_table_put_back(b, &t);
	/* Another process with the same number. */
	born(b, PERF_RECORD_EXIT, 101, 50);
	born(b, PERF_RECORD_EXIT, 100, 51);
	born(b, PERF_RECORD_FORK, 100, 60);
	CHECK_EQ(process_table_take(b, 100, &t), 60);
	CHECK_EQ(t.n, 1);
	thread_table_done(&t);
	born(b, PERF_RECORD_FORK, 100, 70);
	process_table_reset(b, 80);
	CHECK_EQ(process_table_take(b, UINT32_MAX, &t), 0);
	thread_table_done(&t);
	process_table_free(b);
}

/* Many threads that have ended, and many programs executed since: too many intervals for all of them. */
static void test_intervals(void)
{
	struct capture_interval *list;
	size_t n;

	thread_table_init(&t, 100);
	life(PERF_RECORD_FORK, 100, 1, 5);
	for (uint32_t i = 0; i < 1100; i++) {
		life(PERF_RECORD_FORK, 1000 + i, 100, 10);
		life(PERF_RECORD_EXIT, 1000 + i, 100, 20);
	}
	for (uint64_t i = 0; i < 1000; i++) {
		thread_table_own(&t, 30 + 2 * i);
		thread_table_disown(&t, 31 + 2 * i);
	}
	CHECK_EQ(thread_table_intervals(&t, 3000, &list, &n), 0);
	CHECK(n > 1000000 && list[n - 1].from == 30 + 2 * 999 && t.dropped);
	free(list);
	thread_table_done(&t);
}

int main(void)
{
	test_births();
	test_tasks();
	test_executed();
	test_number();
	test_intervals();
	return unit_end();
}
