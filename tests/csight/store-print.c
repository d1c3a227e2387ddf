/* SPDX-License-Identifier: MIT */
/*
 * store-print STORE threads|functions|calls|gaps|notes|count [FUNCTION]: prints what libcsight reads from a store, one
 * line of fields with tabs for each, labels of notes in hexadecimal; count: the number of calls, and nanoseconds of
 * processor time for each.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/csight/csight.h"

static const char *name_of(const struct csight_store *s, uint32_t function)
{
	struct csight_function f = { .size = sizeof(f) };

	return csight_store_function(s, function, &f) < 0 ? "" : f.name;
}

static uint32_t tid_of(const struct csight_store *s, size_t thread)
{
	struct csight_thread t = { .size = sizeof(t) };

	return csight_store_thread(s, thread, &t) < 0 ? 0 : t.tid;
}

static void print_threads(const struct csight_store *s)
{
	struct csight_thread t = { .size = sizeof(t) };

	for (size_t i = 0; csight_store_thread(s, i, &t) == 0; i++)
		printf("%u\t%s\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%.2f\n", t.tid, t.name, (uintmax_t)t.first,
		       (uintmax_t)t.last, (uintmax_t)t.calls, (uintmax_t)t.instructions, (uintmax_t)t.unexplained,
		       (uintmax_t)t.bound, t.quality / 100.0);
}

static void print_functions(const struct csight_store *s)
{
	struct csight_function f = { .size = sizeof(f) };

	for (size_t i = 0; csight_store_function(s, i, &f) == 0; i++)
		if (f.calls)
			printf("%s\t%s\t%u\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%ju\t%u\n", f.name,
			       f.image, f.inlined, (uintmax_t)f.calls, (uintmax_t)f.total, (uintmax_t)f.wait,
			       (uintmax_t)f.self, (uintmax_t)f.total_instructions, (uintmax_t)f.self_instructions,
			       (uintmax_t)f.whole, (uintmax_t)(f.whole ? f.shortest : 0),
			       (uintmax_t)(f.whole ? f.median : 0), (uintmax_t)(f.whole ? f.p99 : 0),
			       (uintmax_t)f.longest, (uintmax_t)f.longest_enter, tid_of(s, f.longest_thread));
}

static int print_calls(const struct csight_store *s, const char *function)
{
	struct csight_calls_options o = { .size = sizeof(o), .function = function };
	struct csight_call c = { .size = sizeof(c) };
	struct csight_calls *calls = NULL;
	int rc = csight_calls_open(s, &o, &calls);

	while (rc == 0 && (rc = csight_calls_next(calls, &c)) == 1) {
		printf("%s\t%u\t%ju\t%ju\t%ju\t%ju\t%u\t%u\t%s\t%s\t%s\n", name_of(s, c.function), tid_of(s, c.thread),
		       (uintmax_t)c.enter, (uintmax_t)c.duration, (uintmax_t)c.bound, (uintmax_t)c.instructions,
		       c.depth, c.whole, c.entered, c.left, c.caller == CSIGHT_NO_CALLER ? "" : name_of(s, c.caller));
		rc = 0;
	}
	csight_calls_close(calls);
	return rc;
}

static int print_gaps(const struct csight_store *s)
{
	struct csight_gap gap = { .size = sizeof(gap) };
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < csight_store_threads(s); i++) {
		struct csight_gaps *gaps = NULL;

		rc = csight_gaps_open(s, i, &gaps);
		while (rc >= 0 && (rc = csight_gaps_next(gaps, &gap)) == 1)
			printf("%u\t%s\t%ju\n", tid_of(s, i), gap.cause, (uintmax_t)(gap.until - gap.from));
		csight_gaps_close(gaps);
	}
	return rc;
}

static void print_notes(const struct csight_store *s)
{
	struct csight_stored_note n = { .size = sizeof(n) };

	for (size_t i = 0; csight_store_note(s, i, &n) == 0; i++) {
		printf("%u\t%s\t%ju\t%ju\t%jd\t", n.tid, n.kind, (uintmax_t)n.time, (uintmax_t)(n.until - n.time),
		       (intmax_t)n.value);
		for (const char *at = n.label; *at; at++)
			printf("%02x", (unsigned char)*at);
		printf("\n");
	}
}

static int count_calls(const struct csight_store *s)
{
	struct csight_call c = { .size = sizeof(c) };
	struct csight_calls *calls = NULL;
	uint64_t n = 0, ns = 0;
	struct timespec used;
	int rc = csight_calls_open(s, NULL, &calls);

	while (rc >= 0 && (rc = csight_calls_next(calls, &c)) == 1) {
		n++;
		ns += c.duration;
	}
	csight_calls_close(calls);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	printf("%ju calls, %ju ns in them, %.1f ns each\n", (uintmax_t)n, (uintmax_t)ns,
	       ((double)used.tv_sec * 1e9 + (double)used.tv_nsec) / (double)n);
	return rc;
}

int main(int argc, char **argv)
{
	struct csight_store *s = NULL;
	int rc = argc < 3 ? -EINVAL : csight_store_open_path(argv[1], 0, &s);

	if (rc == 0 && strcmp(argv[2], "threads") == 0)
		print_threads(s);
	else if (rc == 0 && strcmp(argv[2], "functions") == 0)
		print_functions(s);
	else if (rc == 0 && strcmp(argv[2], "calls") == 0)
		rc = print_calls(s, argc > 3 ? argv[3] : NULL);
	else if (rc == 0 && strcmp(argv[2], "gaps") == 0)
		rc = print_gaps(s);
	else if (rc == 0 && strcmp(argv[2], "notes") == 0)
		print_notes(s);
	else if (rc == 0)
		rc = count_calls(s);
	if (rc < 0)
		printf("%s: %s\n", argc > 1 ? argv[1] : "", strerror(-rc));
	csight_store_close(s);
	return rc < 0;
}
