/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf/pmu-counters.c with the software events of this machine's kernel, if it permits. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/capture/perf/pmu-counters.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { CPUS_MAX = 256, PAGES = 500, THREADS = 3 };

/* What a thread of the child says of itself. */
struct said {
	uint32_t tid;
	uint64_t faults;
};

static int say;

/* Touches pages, and says how many faults that was. */
static void *touch(void *data)
{
	struct rusage before, after;
	struct said s = { .tid = (uint32_t)syscall(SYS_gettid) };

	getrusage(RUSAGE_THREAD, &before);
	for (int i = 0; i < PAGES; i++) {
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		page[0] = 1;
		munmap(page, 4096);
		if (i % 50 == 0)
			usleep(1000);
	}
	getrusage(RUSAGE_THREAD, &after);
	s.faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
	(void)!write(say, &s, sizeof(s));
	return data;
}

/* For each byte: one thread after another touches pages, the last one the first of the process. */
static void child(int go)
{
	char byte;

	while (read(go, &byte, 1) == 1) {
		for (int i = 0; i < THREADS; i++) {
			pthread_t t;

			pthread_create(&t, NULL, touch, NULL);
			pthread_join(t, NULL);
		}
		touch(NULL);
	}
	_exit(0);
}

static void test_names(void)
{
	struct pmu_counters c;
	struct reason why = { "" };

	CHECK_EQ(pmu_counters_parse("cycles,page-faults,r11", NULL, &c, &why), 0);
	CHECK_EQ(c.n, 3);
	CHECK(c.list[0].type == PERF_TYPE_HARDWARE && c.list[0].config == PERF_COUNT_HW_CPU_CYCLES);
	CHECK(c.list[1].type == PERF_TYPE_SOFTWARE && c.list[1].config == PERF_COUNT_SW_PAGE_FAULTS);
	CHECK(c.list[2].type == PERF_TYPE_RAW && c.list[2].config == 0x11);
	CHECK_EQ(pmu_counters_parse("LLC-load-misses", NULL, &c, &why), 0);
	CHECK(c.list[0].type == PERF_TYPE_HW_CACHE && c.list[0].config == 0x10002);
	CHECK_EQ(pmu_counters_parse("rx", NULL, &c, &why), -EINVAL);
	CHECK(strstr(why.text, "no event \"rx\""));
	CHECK_EQ(pmu_counters_parse("../events/x", NULL, &c, &why), -EINVAL);
	CHECK_EQ(pmu_counters_parse("cycles,,r1", NULL, &c, &why), -EINVAL);
	CHECK_EQ(pmu_counters_parse(",", NULL, &c, &why), -EINVAL);
	CHECK_EQ(pmu_counters_parse("", NULL, &c, &why), -EINVAL);
	CHECK_EQ(pmu_counters_parse("r1,cycles,r1", NULL, &c, &why), -EINVAL);
	CHECK(strstr(why.text, "r1 is there twice"));
	CHECK_EQ(pmu_counters_parse("r1,r2,r3,r4,r5,r6,r7,r8", NULL, &c, &why), 0);
	CHECK_EQ(pmu_counters_parse("r1,r2,r3,r4,r5,r6,r7,r8,r9", NULL, &c, &why), -EINVAL);
	CHECK(strstr(why.text, "at most 8"));
}

/* Adds up what is new of a thread's samples of a counter. */
static uint64_t sum_of(const struct buf *b, uint32_t counter, uint32_t tid)
{
	const struct pd_sample *s = (const struct pd_sample *)b->data;
	uint64_t sum = 0;

	for (size_t i = 0; i < b->size / sizeof(*s); i++)
		if (s[i].counter == counter && s[i].origin.tid == tid)
			sum += s[i].value;
	return sum;
}

static void read_all(struct pmu_counters *c, uint64_t *heads, struct buf *ret)
{
	int rc = 0;

	buf_clear(ret);
	for (size_t n = 0; n < c->n_rings && rc == 0; n++) {
		uint64_t all = 0;

		rc = pmu_counters_copy(c, n, heads ? &heads[n] : &all, ret);
	}
	CHECK_EQ(rc, 0);
}

/*
 * Runs the child once, and compares the sums of its threads with what they say: less than a period is missing of each
 * thread and CPU. The kernel lets threads that follow each other on a CPU exchange their events, with what these have
 * counted since the last sample.
 */
static void run(struct pmu_counters *c, int go, int from, uint64_t *heads, struct buf *b)
{
	struct said said[THREADS + 1];
	uint64_t period = c->list[0].period, last = 0, all = 0, really = 0;
	bool right = true, before = true;

	(void)!write(go, "1", 1);
	for (int i = 0; i <= THREADS; i++)
		CHECK_EQ(read(from, &said[i], sizeof(said[i])), sizeof(said[i]));
	read_all(c, heads, b);
	for (int i = 0; i <= THREADS; i++) {
		uint64_t sum = sum_of(b, 0, said[i].tid);

		printf("# thread %u: %ju of %ju\n", said[i].tid, (uintmax_t)sum, (uintmax_t)said[i].faults);
		right = right && sum > said[i].faults / 2 && sum < 2 * said[i].faults;
		all += sum;
		really += said[i].faults;
	}
	CHECK(right);
	/* They also have some of their own before and after they count. */
	CHECK(all <= really + 400 && all + period * c->n_rings * (THREADS + 1) >= really);
	/* Newest first, in each ring. */
	for (size_t i = 0; i < b->size / sizeof(struct pd_sample); i++) {
		const struct pd_sample *s = (const struct pd_sample *)b->data + i;

		before = before && (i == 0 || s->origin.cpu != s[-1].origin.cpu || s->origin.time <= last);
		last = s->origin.time;
	}
	CHECK(before);
}

static void test_counting(void)
{
	struct plan_cpu cpus[CPUS_MAX] = { { 0 } };
	struct plan plan = { .cpus = cpus };
	struct pmu_counters_scope scope = { .plan = &plan, .most_events = 1000 };
	uint64_t heads[CPUS_MAX] = { 0 };
	struct pmu_counters c;
	struct reason why = { "" };
	struct buf b = { 0 };
	int go[2], from[2], rc;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (uint32_t i = 0; i < CPU_SETSIZE && plan.n_cpus < CPUS_MAX; i++)
		if (CPU_ISSET(i, &set))
			cpus[plan.n_cpus++].cpu = i;
	CHECK_EQ(pipe(go), 0);
	CHECK_EQ(pipe(from), 0);
	scope.pid = scope.of.pid = fork();
	if (scope.pid == 0) {
		say = from[1];
		close(go[1]);
		child(go[0]);
	}
	CHECK_EQ(pmu_counters_parse("page-faults,context-switches", NULL, &c, &why), 0);
	rc = pmu_counters_open(&c, &scope, &why);
	if (rc == -EACCES || rc == -EPERM || rc == -ENOSYS) {
		unit_skip("events are counted", why.text);
	} else {
		CHECK_EQ(rc, 0);
		CHECK_EQ(c.n_events, 2 * plan.n_cpus);
		run(&c, go[1], from[0], NULL, &b);
		CHECK(b.size > 0);
		CHECK(pmu_counters_share(&c, 0) >= 95);
		/* Each sample is read once. */
		read_all(&c, heads, &b);
		read_all(&c, heads, &b);
		CHECK_EQ(b.size, 0);
		run(&c, go[1], from[0], heads, &b);
		pmu_counters_pause(&c, true);
		(void)!write(go[1], "1", 1);
		for (int i = 0; i <= THREADS; i++)
			(void)!read(from[0], &(struct said){ 0 }, sizeof(struct said));
		read_all(&c, heads, &b);
		CHECK(b.size <= 4 * sizeof(struct pd_sample));
		pmu_counters_pause(&c, false);
		read_all(&c, heads, &b);
		run(&c, go[1], from[0], heads, &b);
		pmu_counters_close(&c, false);
		CHECK_EQ(pmu_counters_parse("page-faults", NULL, &c, &why), 0);
		scope.most_events = 1;
		CHECK_EQ(pmu_counters_open(&c, &scope, &why), plan.n_cpus > 1 ? -EMFILE : 0);
	}
	pmu_counters_close(&c, false);
	buf_done(&b);
	close(go[1]);
	waitpid(scope.pid, NULL, 0);
}

int main(void)
{
	test_names();
	test_counting();
	return unit_end();
}
