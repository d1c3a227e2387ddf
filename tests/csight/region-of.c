/* SPDX-License-Identifier: MIT */
/*
 * region-of PID MS BUDGET_MS LABEL: a region that takes at least this long, about a process; prints what
 * csight_region_end() returned. With PID 0, regions of its own, as scopes: they must end with their blocks.
 *
 * region-of PID MS BUDGET_MS LABEL N: N such regions, named LABEL1 and so on, and between them as many that a budget of
 * an hour holds. Prints how many of the former, and of the latter, requested a snapshot, and how many requests csightd
 * was sent, and waits for the end of standard input: csightd drops what a closed connection has not had answered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/csight/csight.h"

enum { RETRY_US = 5000 };

/* Returns what csight_region_end() returned for a region about a process, once the daemon is not behind. */
static int region_of(struct csight *c, const char *label, char **argv, unsigned long budget_ms)
{
	struct csight_region region;
	int rc;

	csight_region_begin(&region, label, budget_ms * 1000000);
	region.pid = (pid_t)atoi(argv[1]);
	usleep((useconds_t)atoi(argv[2]) * 1000);
	while ((rc = csight_region_end(&region, c)) == -EAGAIN)
		usleep(RETRY_US);
	return rc;
}

static void plant(struct csight *c, char **argv)
{
	struct csight_counts counts = { .size = sizeof(counts) };
	unsigned long n = strtoul(argv[5], NULL, 10), over = 0, within = 0;
	char label[64];

	for (unsigned long i = 1; i <= n; i++) {
		snprintf(label, sizeof(label), "%s%lu", argv[4], i);
		over += region_of(c, label, argv, strtoul(argv[3], NULL, 10)) == 1;
		within += region_of(c, "within", argv, 3600000) == 1;
	}
	csight_async_counts(c, &counts);
	printf("%lu %lu %ju\n", over, within, (uintmax_t)counts.sent);
	fflush(stdout);
	getchar();
}

static void nested(struct csight *c)
{
	CSIGHT_REGION_SCOPE(c, "outer", 0);
	{
		CSIGHT_REGION_SCOPE(c, "inner", 0);
	}
}

int main(int argc, char **argv)
{
	struct csight_counts counts = { .size = sizeof(counts) };
	struct csight *c = NULL;
	int rc;

	if (argc < 5 || csight_open(NULL, &c) < 0)
		return 2;
	csight_stop_indicator();
	if (argc > 5) {
		plant(c, argv);
	} else if (strcmp(argv[1], "0") == 0) {
		nested(c);
		rc = csight_async_counts(c, &counts);
		printf("%d\n", rc < 0 ? rc : (int)(counts.sent + counts.failed));
	} else {
		printf("%d\n", region_of(c, argv[4], argv, strtoul(argv[3], NULL, 10)));
	}
	csight_close(c);
	return 0;
}
