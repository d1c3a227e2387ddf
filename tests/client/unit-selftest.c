/* SPDX-License-Identifier: MIT */
/*
 * client/selftest-log.c: what is equal, missing at a gap, missing without one, and different.
 * client/selftest-step.c: the program's two threads, by single steps.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/selftest-log.h"
#include "tests/unit.h"

static struct selftest_result compare(const char *truth, const char *decode)
{
	const char *const texts[] = { truth, decode };
	_cleanup_selftest_log_ struct selftest_log a = { 0 }, b = { 0 };
	struct selftest_log *const logs[] = { &a, &b };
	struct selftest_result ret = { 0 };

	for (int i = 0; i < 2; i++) {
		_cleanup_fclose_ FILE *f = fmemopen((void *)(uintptr_t)texts[i], strlen(texts[i]), "r");

		logs[i]->start = 0x100;
		logs[i]->stop = 0x200;
		CHECK_EQ(selftest_log_read_decode(logs[i], f), 0);
	}
	selftest_log_compare(&a, &b, true, &ret);
	return ret;
}

#define THREAD "# thread 7\n"
#define GAP "10 no-sync overflow\n"
#define A "10 range 100 110 4 A64 E br\n"
#define B "10 range 120 128 2 A64 E br\n"
#define C "10 range 140 14c 3 A64 E br\n"
#define OUTSIDE "10 range 400 410 4 A64 E br\n"

/* Both threads enter what is compared by the same function. The first one calls it twice, and handles a signal. */
static void test_steps(void)
{
#if defined(__aarch64__) || defined(__x86_64__)
	_cleanup_selftest_log_ struct selftest_log log = { 0 };
	const char *builddir = getenv("top_builddir");
	char program[PATH_MAX], output[] = "/tmp/unit-selftest-XXXXXX";
	int fd = mkstemp(output);

	snprintf(program, sizeof(program), "%s/tests/client/known", builddir ? builddir : ".");
	CHECK(fd >= 0);
	CHECK_EQ(selftest_log_step(&log, program, output), 0);
	CHECK_EQ(log.n, 2);
	if (log.n == 2) {
		const struct selftest_thread *a = &log.threads[0], *b = &log.threads[1];

		CHECK(b->n > 1000 && a->n > b->n);
		CHECK(a->n && b->n && a->pcs[0] == b->pcs[0]);
		/* What is beside it was executed by few steps, or by none. */
		CHECK(a->executed - a->n < a->n && b->executed - b->n < b->n);
	}
	unlink(output);
	close(fd);
	CHECK_EQ(selftest_log_step(&log, "/bin/false", "/dev/null"), -EIO);
#endif
}

int main(void)
{
	struct selftest_result r = compare(THREAD A B A C, THREAD A OUTSIDE B A C);

	CHECK(r.compared == 13 && !r.missing && !r.unmarked && !r.different && !r.gaps);
	CHECK_EQ(r.executed, 17);
	r = compare(THREAD A B A C, THREAD A GAP A C);
	CHECK(r.compared == 11 && r.missing == 2 && !r.unmarked && !r.different && r.gaps == 1);
	r = compare(THREAD A B A C, THREAD A A C);
	CHECK(r.different == 11 && !r.gaps);
	r = compare(THREAD A B A C, THREAD A B A);
	CHECK(r.unmarked == 3 && !r.missing && !r.different);
	r = compare(THREAD A B A C, THREAD A B A GAP);
	CHECK(r.missing == 3 && !r.unmarked && !r.different);
	r = compare(THREAD A B, THREAD A B C);
	CHECK(r.different == 9 && !r.compared);
	r = compare(THREAD A B C, THREAD A GAP C GAP B);
	CHECK_EQ(r.different, 2);
	r = compare(THREAD A B, THREAD B);
	CHECK(r.different == 2 && !r.missing);
	r = compare(THREAD A B, THREAD GAP B);
	CHECK(r.missing == 4 && !r.different && !r.gaps);
	r = compare(THREAD A, "# thread 8\n" A);
	CHECK(r.unmarked == 4 && r.different == 4);
	r = compare(THREAD A, THREAD "10 context A64 EL0 N 64 ctxid=7\n10 timestamp 20\n10 timestamp 20\n" A);
	CHECK(!r.wrong_times && !r.wrong_contexts);
	r = compare(THREAD A, THREAD "10 context A64 EL0 N 64 ctxid=8\n10 timestamp 20\n10 timestamp 1f\n" A);
	CHECK(r.wrong_times == 1 && r.wrong_contexts == 1);
	test_steps();
	return unit_end();
}
