/* SPDX-License-Identifier: MIT */
/*
 * What csight_snapshot_async() costs its caller.
 *
 *	bench-async calls PID N [EVERY_MS]	the time of N calls, one in 200 us: median, 99 %, maximum; in how many
 *						the thread blocked or was preempted, and the times of the others
 *	bench-async server PID SECONDS		requests of 50 us one after another, of which one in 100 is slow and
 *						makes the call, against the same without it, in turns: processor
 *						time a request
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/base/util.h"
#include "lib/csight/csight.h"

enum { PAUSE_NS = 200000, REQUEST_NS = 50000, SLOW = 100, TURN = 4000 };

static int compare(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static void print_times(uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), compare);
	if (n)
		printf("median %.2f  99%% %.2f  99.9%% %.2f  max %.2f us", (double)ns[n / 2] / 1e3,
		       (double)ns[n * 99 / 100] / 1e3, (double)ns[n * 999 / 1000] / 1e3, (double)ns[n - 1] / 1e3);
}

static int bench_calls(struct csight *c, pid_t pid, size_t n, uint64_t every_ms)
{
	struct csight_async_options o = { .size = sizeof(o), .flags = CSIGHT_NO_ARM, .every_ms = every_ms };
	const struct timespec pause = { 0, PAUSE_NS };
	struct csight_counts counts = { .size = sizeof(counts) };
	uint64_t *ns = calloc(n, sizeof(*ns)), *undisturbed = calloc(n, sizeof(*undisturbed)), blocked = 0,
		 preempted = 0;
	struct rusage before, after;
	size_t n_undisturbed = 0;

	if (!ns || !undisturbed)
		return 1;
	for (size_t i = 0; i < n; i++) {
		uint64_t from;

		getrusage(RUSAGE_THREAD, &before);
		from = now_ns(CLOCK_MONOTONIC);
		csight_snapshot_async(c, pid, &o, NULL);
		ns[i] = now_ns(CLOCK_MONOTONIC) - from;
		getrusage(RUSAGE_THREAD, &after);
		blocked += after.ru_nvcsw != before.ru_nvcsw;
		preempted += after.ru_nivcsw != before.ru_nivcsw;
		if (after.ru_nvcsw == before.ru_nvcsw && after.ru_nivcsw == before.ru_nivcsw)
			undisturbed[n_undisturbed++] = ns[i];
		nanosleep(&pause, NULL);
	}
	csight_async_counts(c, &counts);
	print_times(ns, n);
	printf("  (%zu calls: %ju sent, %ju full, %ju limited, %ju failed); blocked in %ju, preempted in %ju, others ",
	       n, (uintmax_t)counts.sent, (uintmax_t)counts.full, (uintmax_t)counts.limited, (uintmax_t)counts.failed,
	       (uintmax_t)blocked, (uintmax_t)preempted);
	print_times(undisturbed, n_undisturbed);
	printf("\n");
	free(ns);
	free(undisturbed);
	return 0;
}

/* Work that the compiler does not remove, of a number of rounds. */
static void work(unsigned rounds)
{
	static volatile uint64_t state = 1;

	for (unsigned i = 0; i < rounds; i++)
		state = state * 6364136223846793005u + 1442695040888963407u;
}

/* Returns the processor time of TURN requests; c: makes the call in the slow ones, or NULL. */
static uint64_t serve(struct csight *c, pid_t pid, unsigned rounds)
{
	struct csight_async_options o = { .size = sizeof(o), .flags = CSIGHT_NO_ARM };
	uint64_t from = now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (unsigned i = 0; i < TURN; i++) {
		work(rounds);
		if (i % SLOW == 0 && c)
			csight_snapshot_async(c, pid, &o, NULL);
	}
	return now_ns(CLOCK_THREAD_CPUTIME_ID) - from;
}

static int bench_server(struct csight *c, pid_t pid, unsigned seconds)
{
	uint64_t with = 0, without = 0, from, end = now_ns(CLOCK_MONOTONIC) + seconds * 1000000000ull;
	struct csight_counts counts = { .size = sizeof(counts) };
	unsigned rounds = 1000000, turns = 0;

	from = now_ns(CLOCK_THREAD_CPUTIME_ID);
	work(rounds);
	rounds = (unsigned)((double)rounds * REQUEST_NS / (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - from));
	while (now_ns(CLOCK_MONOTONIC) < end) {
		without += serve(NULL, pid, rounds);
		with += serve(c, pid, rounds);
		turns++;
	}
	csight_async_counts(c, &counts);
	printf("%.0f requests a second of processor time without, %.0f with the call in 1 %% of them: %+.3f %%  "
	       "(%u requests each, %ju calls sent, %ju refused)\n",
	       1e9 * TURN * turns / (double)without, 1e9 * TURN * turns / (double)with,
	       100.0 * ((double)without / (double)with - 1), TURN * turns, (uintmax_t)counts.sent,
	       (uintmax_t)counts.full);
	return 0;
}

int main(int argc, char **argv)
{
	struct csight *c = NULL;
	pid_t pid;
	int rc;

	if (argc < 4 || csight_open(NULL, &c) < 0) {
		fprintf(stderr, "usage: bench-async calls PID N [EVERY_MS] | server PID SECONDS\n");
		return 2;
	}
	pid = (pid_t)atoi(argv[2]);
	/* Without a daemon it fails; then that is measured. */
	csight_connect(c);
	if (strcmp(argv[1], "calls") == 0)
		rc =
		    bench_calls(c, pid ? pid : getpid(), (size_t)atoi(argv[3]), argc > 4 ? (uint64_t)atoi(argv[4]) : 0);
	else
		rc = bench_server(c, pid ? pid : getpid(), (unsigned)atoi(argv[3]));
	csight_close(c);
	return rc;
}
