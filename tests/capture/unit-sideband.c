/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/perf: sideband.c and thread-table.c with this machine's kernel, if it permits. With an argument: only
 * the accuracy of the difference between two clocks is tested.
 */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "daemon/capture/perf/sideband.h"
#include "daemon/capture/perf/thread-table.h"
#include "lib/base/util.h"
#include "tests/unit.h"

static struct thread_table watched;
static uint64_t last_time;
static bool in_order = true;
static unsigned n_maps, n_switches, n_lost_switches;

static bool wants(void *data, uint32_t pid, const struct perf_record *r)
{
	(void)r;
	(void)data;
	return pid == watched.pid;
}

static void on_record(void *data, uint32_t pid, const struct perf_record *r)
{
	(void)data;
	(void)pid;
	in_order &= r->origin.time >= last_time;
	last_time = r->origin.time;
	n_maps += r->type == PERF_RECORD_MMAP2;
	n_switches += r->type == PERF_RECORD_SWITCH_CPU_WIDE;
	thread_table_fold(&watched, r);
}

static void *thread(void *data)
{
	(void)data;
	prctl(PR_SET_NAME, "side-thread");
	usleep(1000);
	return NULL;
}

/* Executes a step for each byte: threads start and end, then another program is executed. */
static void child(int go)
{
	char byte;

	(void)!read(go, &byte, 1);
	for (unsigned i = 0; i < 50; i++) {
		pthread_t t[3];

		for (unsigned k = 0; k < 3; k++)
			pthread_create(&t[k], NULL, thread, NULL);
		for (unsigned k = 0; k < 3; k++)
			pthread_join(t[k], NULL);
	}
	execl("/bin/sh", "sh", "-c", "read x; exit 0", (char *)NULL);
	_exit(1);
}

static size_t cpus_here(uint32_t *ret, size_t room)
{
	size_t n = 0;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (uint32_t c = 0; c < CPU_SETSIZE && n < room; c++)
		if (CPU_ISSET(c, &set))
			ret[n++] = c;
	return n;
}

static void test_watching(struct sideband *s)
{
	int pipes[2];
	uint64_t before, since, begun;
	unsigned named = 0;
	pid_t pid;

	CHECK_EQ(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		dup2(pipes[0], 0);
		close(pipes[1]);
		child(0);
	}
	thread_table_init(&watched, (uint32_t)pid);
	begun = now_ns(CLOCK_MONOTONIC);
	sideband_drain(s);
	sideband_lost(s, &since);
	before = sideband_now(s);
	CHECK(before > 0);
	/* The time of the last drain lies between two readings of the other clock. */
	CHECK(before - (uint64_t)sideband_shift(s) > begun &&
	      before - (uint64_t)sideband_shift(s) < now_ns(CLOCK_MONOTONIC));
	CHECK_EQ(thread_table_scan(&watched, before), 0);
	CHECK_EQ(watched.n, 1);
	thread_table_own(&watched, before);
	(void)!write(pipes[1], "1", 1);
	for (unsigned i = 0; i < 1000 && !watched.execs; i++) {
		usleep(10000);
		sideband_drain(s);
	}
	CHECK_EQ(watched.execs, 1);
	CHECK_EQ(watched.n, 151);
	CHECK_EQ(watched.n_ended, 150);
	for (size_t i = 0; i < watched.n; i++)
		named += strcmp(watched.list[i].name, "side-thread") == 0 && watched.list[i].born &&
			 watched.list[i].start < watched.list[i].end && watched.list[i].start > before;
	CHECK_EQ(named, 150);
	CHECK_STR(thread_table_find(&watched, (uint32_t)pid, sideband_now(s))->name, "sh");
	CHECK(n_maps > 3);
	CHECK(in_order);
	CHECK(!thread_table_owned(&watched, watched.last_exec));
	(void)!write(pipes[1], "1\n", 2);
	close(pipes[0]);
	close(pipes[1]);
	waitpid(pid, NULL, 0);
	sideband_drain(s);
	CHECK(watched.ended);
	CHECK(sideband_now(s) > before);
	CHECK(n_switches > 300);
	CHECK(!sideband_lost(s, &since));
	thread_table_done(&watched);
}

/* Stays on one CPU, since losses are known per CPU. Returns those it could run on. */
static cpu_set_t stay(void)
{
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	return all;
}

static void test_loss(struct sideband *s)
{
	uint64_t since = 0, before;
	cpu_set_t all = stay();
	int status;

	/* Other losses may have occurred before. */
	sideband_drain(s);
	sideband_lost(s, &since);
	before = sideband_now(s);
	/* More records than a ring can hold. */
	for (unsigned i = 0; i < 20000; i++)
		prctl(PR_SET_NAME, "noise");
	sched_setaffinity(0, sizeof(all), &all);
	sideband_drain(s);
	sideband_drain(s);
	CHECK(sideband_lost(s, &since));
	CHECK(since >= before && since < sideband_now(s));
	CHECK(!sideband_lost(s, &since));
	waitpid(-1, &status, WNOHANG);
}

/* Records of others beyond what a ring holds cost nothing, if the rings are emptied in time. */
static void test_collect(struct sideband *s)
{
	cpu_set_t all = stay();
	uint64_t since;

	sideband_drain(s);
	sideband_lost(s, &since);
	for (unsigned i = 0; i < 20000; i++) {
		prctl(PR_SET_NAME, "noise");
		if (i % 500 == 0)
			sideband_collect(s);
	}
	sched_setaffinity(0, sizeof(all), &all);
	sideband_drain(s);
	CHECK(!sideband_lost(s, &since));
}

/* More switches than a ring holds cost switches alone. */
static void test_lost_switches(struct sideband *s)
{
	cpu_set_t all = stay();
	int there[2], back[2];
	unsigned sent = 0;
	uint64_t since;
	char byte = 0;
	pid_t pid;

	CHECK(pipe(there) == 0 && pipe(back) == 0);
	pid = fork();
	if (pid == 0) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	close(there[0]);
	sideband_drain(s);
	sideband_lost(s, &since);
	n_lost_switches = 0;
	for (unsigned i = 0; i < 10000; i++)
		sent += write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1;
	CHECK_EQ(sent, 10000);
	sched_setaffinity(0, sizeof(all), &all);
	sideband_drain(s);
	CHECK(n_lost_switches > 0);
	CHECK(!sideband_lost(s, &since));
	close(there[1]);
	close(back[0]);
	close(back[1]);
	waitpid(pid, NULL, 0);
}

static void *work(void *data)
{
	const volatile bool *ends = data;

	while (!*ends)
		continue;
	return NULL;
}

/* The difference between the clocks is stable even when this thread is interrupted often. */
static void test_shift(struct sideband *s)
{
	int64_t least = INT64_MAX, most = INT64_MIN;
	volatile bool ends = false;
	bool between = true;
	pthread_t threads[8];

	for (unsigned i = 0; i < ELEMENTS(threads); i++)
		pthread_create(&threads[i], NULL, work, (void *)&ends);
	for (unsigned i = 0; i < 500; i++) {
		uint64_t before = now_ns(CLOCK_MONOTONIC);

		sideband_drain(s);
		least = MIN(least, sideband_shift(s));
		most = MAX(most, sideband_shift(s));
		between &= (int64_t)(sideband_now(s) - before) > sideband_shift(s) - 20000 &&
			   (int64_t)(sideband_now(s) - now_ns(CLOCK_MONOTONIC)) < sideband_shift(s) + 20000;
		sched_yield();
	}
	CHECK(between);
	ends = true;
	for (unsigned i = 0; i < ELEMENTS(threads); i++)
		pthread_join(threads[i], NULL);
	printf("# differences of the clocks: within %lld ns\n", (long long)(most - least));
	if (sideband_clock(s).known)
		CHECK(most - least < 20000);
	else
		unit_skip("stability of the difference between clocks", "the kernel does not describe its clock");
}

static void on_lost_switches(void *data, uint64_t since)
{
	n_lost_switches++;
}

static int open_on(struct sideband *s, const uint32_t *cpus, size_t n, enum sideband_switches switches,
		   struct reason *why)
{
	struct sideband_cpu_choice list[256];

	for (size_t i = 0; i < n; i++)
		list[i] = (struct sideband_cpu_choice){ cpus[i], switches };
	return sideband_open(s, list, n, why);
}

static void test_side(bool clocks)
{
	const struct sideband_listener user = { wants, on_record, on_lost_switches, NULL };
	int poll_fd = epoll_create1(EPOLL_CLOEXEC);
	uint32_t cpus[256];
	size_t n = cpus_here(cpus, ELEMENTS(cpus));
	struct reason why = { "" };
	struct sideband *s;

	CHECK_EQ(sideband_new(&user, poll_fd, &s), 0);
	if (open_on(s, cpus, n, SIDEBAND_SWITCHES_NEEDED, &why) < 0) {
		printf("# %s\n", why.text);
		unit_skip("kernel records of processes", "perf_event_open is not allowed here");
	} else if (clocks) {
		test_shift(s);
	} else {
		test_watching(s);
		test_shift(s);
		test_loss(s);
		test_collect(s);
		/* The enabled time of a live event increases; opening again loses no records. */
		uint64_t since;
		CHECK_EQ(open_on(s, cpus, n, SIDEBAND_NO_SWITCHES, &why), 0);
		CHECK(!sideband_lost(s, &since));
		CHECK_EQ(open_on(s, cpus, n, SIDEBAND_SWITCHES_WANTED, &why), 0);
		test_lost_switches(s);
		CHECK_EQ(open_on(s, cpus, 1, SIDEBAND_NO_SWITCHES, &why), 0);
		sideband_close(s);
		CHECK(!sideband_is_open(s));
	}
	sideband_free(s);
	close(poll_fd);
}

int main(int argc, char **argv)
{
	test_side(argc > 1);
	return unit_end();
}
