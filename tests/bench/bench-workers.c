/* SPDX-License-Identifier: MIT */
/*
 * Measures decoding by several threads, one of which reads and receives the batches, against one thread: processor time
 * of all, balance of the load, wall time.
 *
 *   bench-workers NAME INPUT [THREADS...]
 *
 * Measures each outlet of the native engine in its first and in its third pass over the trace, with sinks that do
 * nothing. BYTES=N limits the trace; PART=N sets the size of chunks; ROUNDS=N (5) is the number of runs, of which the
 * medians are printed.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/base/util.h"
#include "lib/etm/native.h"
#include "lib/etm/pool.h"
#include "tests/etm/trace.h"

enum { ROUNDS_MAX = 99, PASSES = 3 };

static unsigned rounds = 5;
static size_t part;
static const char *name;

/* Times of the first and the last pass, in ns. */
struct figures {
	double first, cpu, wall, load[POOL_THREADS_MAX + 1];
};

static int take_batch(void *user, const struct native_batch *b)
{
	return 0;
}

/* Regions of the size of functions. */
static uint32_t region_of(void *user, uint64_t address)
{
	return (uint32_t)(address >> 9) & (INT32_MAX >> 1);
}

static uint64_t no_version(void *user, const struct engine_context *context)
{
	return 0;
}

/* Copies the bytes to the engine's buffer, as a read from a file does. */
static int feed(const struct trace *t, struct native *e, struct native_workers *w)
{
	static uint8_t chunk[ENGINE_RESERVE_MAX];
	int rc = 0;

	for (size_t at = 0, n; at < t->size && rc == 0; at += n) {
		uint8_t *to = w ? native_workers_reserve(w, ENGINE_RESERVE_MAX) : chunk;

		n = MIN(t->size - at, (size_t)ENGINE_RESERVE_MAX);
		if (!to)
			return -ENOMEM;
		memcpy(to, t->bytes + at, n);
		rc = w ? native_workers_push(w, to, n) : native_push(e, to, n);
	}
	return rc;
}

/* The last time is the calling thread's. */
static double load_of(const struct pool *p, unsigned thread)
{
	return (double)(thread < pool_threads(p) ? pool_time(p, thread) : now_ns(CLOCK_THREAD_CPUTIME_ID));
}

/* One thread: the engine without workers. */
static int run(const struct trace *t, enum native_outlet outlet, unsigned threads, struct figures *ret)
{
	const struct native_sink sink = { .batch = take_batch, .outlet = outlet, .region = region_of };
	struct engine_memory memory = t->memory;
	struct native_workers *w = NULL;
	struct native *e = NULL;
	struct pool *pool = NULL;
	int rc = threads > 1 ? pool_new(threads - 1, &pool) : 0;

	memory.version = no_version;
	if (rc == 0)
		rc = pool ? native_workers_open(&t->config, &memory, &sink,
						&(struct native_workers_options){ pool, threads - 1, part }, &w)
			  : native_open(&t->config, &memory, &sink, &e);
	for (unsigned pass = 0; pass < PASSES && rc == 0; pass++) {
		uint64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID), wall = now_ns(CLOCK_MONOTONIC);

		for (unsigned i = 0; pool && i < threads; i++)
			ret->load[i] = load_of(pool, i);
		rc = feed(t, e, w);
		if (rc == 0)
			rc = w ? native_workers_reset(w) : native_reset(e);
		ret->cpu = (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
		ret->first = pass ? ret->first : ret->cpu;
		ret->wall = (double)(now_ns(CLOCK_MONOTONIC) - wall);
		for (unsigned i = 0; pool && i < threads; i++)
			ret->load[i] = load_of(pool, i) - ret->load[i];
	}
	native_close(e);
	native_workers_close(w);
	pool_free(pool);
	return rc;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *values)
{
	qsort(values, rounds, sizeof(*values), compare);
	return values[rounds / 2];
}

/* The difference between the busiest and the idlest thread, as a share. */
static double unevenness(const struct figures *f, unsigned threads)
{
	double low = f->load[0], high = f->load[0];

	for (unsigned i = 1; i < threads; i++) {
		low = MIN(low, f->load[i]);
		high = MAX(high, f->load[i]);
	}
	return high > 0 ? 1 - low / high : 0;
}

static int bench(const struct trace *t, const char *what, enum native_outlet outlet, unsigned threads)
{
	double first[ROUNDS_MAX], cpu[ROUNDS_MAX], wall[ROUNDS_MAX], uneven[ROUNDS_MAX], one_wall[ROUNDS_MAX];
	struct figures one, several;
	int rc = 0;

	/* Alternate, so that other load on the machine affects both. */
	for (unsigned i = 0; i < rounds && rc == 0; i++) {
		rc = run(t, outlet, 1, &one);
		if (rc == 0)
			rc = run(t, outlet, threads, &several);
		first[i] = several.first / one.first;
		cpu[i] = several.cpu / one.cpu;
		wall[i] = several.wall / one.wall;
		uneven[i] = unevenness(&several, threads);
		one_wall[i] = one.wall;
	}
	if (rc == 0)
		printf("%-18s %-9s %2u threads: processor time %5.3f x (first pass %5.3f x), loads within %4.1f %%, "
		       "time %5.3f x (one: %.0f MB/s)\n",
		       name, what, threads, median(cpu), median(first), 100 * median(uneven), median(wall),
		       (double)t->size * 1e3 / median(one_wall));
	fflush(stdout);
	return rc;
}

int main(int argc, char **argv)
{
	static const char *const outlets[] = {
		[NATIVE_EDGES] = "elements", [NATIVE_CALLS] = "calls", [NATIVE_SUMS] = "sums"
	};
	struct rusage usage;
	struct trace t;
	int rc;

	if (argc < 3) {
		fprintf(stderr, "usage: bench-workers NAME INPUT [THREADS...]\n");
		return 2;
	}
	if (getenv("ROUNDS"))
		rounds = MIN(MAX((unsigned)strtoul(getenv("ROUNDS"), NULL, 0), 1u), (unsigned)ROUNDS_MAX);
	if (getenv("PART"))
		part = (size_t)strtoull(getenv("PART"), NULL, 0);
	name = argv[1];
	rc = trace_load(argv[2], -1, &t);
	if (rc < 0)
		return 1;
	if (getenv("BYTES"))
		t.size = MIN(t.size, (size_t)strtoull(getenv("BYTES"), NULL, 0));
	for (int i = 3; rc == 0 && (i < argc || i == 3); i++)
		for (size_t k = 0; rc == 0 && k < ELEMENTS(outlets); k++) {
			unsigned threads = i < argc ? (unsigned)strtoul(argv[i], NULL, 0) : 2;

			rc = bench(&t, outlets[k], (enum native_outlet)k,
				   MIN(MAX(threads, 2u), (unsigned)POOL_THREADS_MAX + 1));
		}
	getrusage(RUSAGE_SELF, &usage);
	printf("%-18s memory in all, with the trace of %.0f MB: %.0f MB\n", name, (double)t.size / 1e6,
	       (double)usage.ru_maxrss / 1024);
	if (rc < 0)
		fprintf(stderr, "bench-workers: %s: %s\n", name, strerror(-rc));
	trace_done(&t);
	return rc < 0;
}
