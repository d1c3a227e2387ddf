/* SPDX-License-Identifier: MIT */
/*
 * A minimal unit test framework: TAP on standard output, one line per check. A test program ends with `return
 * unit_end();`.
 *
 *   CHECK(rd_u8(&r, &v) == 0);            the expression is the name of the check
 *   CHECK_EQ(v, 7);                       prints both values if they differ
 *   CHECK_STR(text, "abc");
 *   unit_skip("name", "reason");
 */
#ifndef CSIGHT_TESTS_UNIT_H
#define CSIGHT_TESTS_UNIT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak, so that all files of a program share them. */
__attribute__((weak)) int unit_count, unit_failed;

__attribute__((unused, format(printf, 4, 5))) static bool unit_check(bool good, const char *file, int line,
								     const char *fmt, ...)
{
	va_list args;

	/* Threads may check at the same time. */
	flockfile(stdout);
	printf("%s %d - ", good ? "ok" : "not ok", ++unit_count);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	if (!good) {
		printf("# %s:%d\n", file, line);
		unit_failed++;
	}
	fflush(stdout);
	funlockfile(stdout);
	return good;
}

#define CHECK(condition) unit_check((condition), __FILE__, __LINE__, "%s", #condition)

#define CHECK_EQ(got, want)                                                                          \
	({                                                                                           \
		intmax_t got_ = (intmax_t)(got), want_ = (intmax_t)(want);                           \
		bool same_ = unit_check(got_ == want_, __FILE__, __LINE__, "%s == %s", #got, #want); \
		if (!same_)                                                                          \
			printf("# got %jd (0x%jx), want %jd (0x%jx)\n", got_, got_, want_, want_);   \
		same_;                                                                               \
	})

#define CHECK_STR(got, want)                                                                                   \
	({                                                                                                     \
		const char *got_ = (got), *want_ = (want);                                                     \
		bool same_ =                                                                                   \
		    unit_check(got_ && strcmp(got_, want_) == 0, __FILE__, __LINE__, "%s is %s", #got, #want); \
		if (!same_)                                                                                    \
			printf("# got \"%s\", want \"%s\"\n", got_ ? got_ : "(null)", want_);                  \
		same_;                                                                                         \
	})

__attribute__((unused)) static void unit_skip(const char *name, const char *reason)
{
	printf("ok %d - %s # SKIP %s\n", ++unit_count, name, reason);
}

__attribute__((unused)) static int unit_end(void)
{
	printf("1..%d\n", unit_count);
	fflush(stdout);
	return unit_failed != 0;
}

/* Returns the path of a program of this build, in a static buffer. */
static inline const char *unit_built(const char *name)
{
	static char path[4096];
	const char *build = getenv("top_builddir");

	snprintf(path, sizeof(path), "%s/%s", build ? build : ".", name);
	return path;
}

#endif
