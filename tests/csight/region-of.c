/* SPDX-License-Identifier: MIT */
/*
 * region-of PID MS BUDGET_MS LABEL: a region that takes at least this long, about a process; prints what
 * csight_region_end() returned. With PID 0, regions of its own, as scopes: they must end with their blocks.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/csight/csight.h"

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
	struct csight_region region;
	struct csight *c = NULL;
	int rc;

	if (argc != 5 || csight_open(NULL, &c) < 0)
		return 2;
	csight_stop_indicator();
	if (strcmp(argv[1], "0") == 0) {
		nested(c);
		rc = csight_async_counts(c, &counts);
		printf("%d\n", rc < 0 ? rc : (int)(counts.sent + counts.failed));
	} else {
		csight_region_begin(&region, argv[4], strtoull(argv[3], NULL, 10) * 1000000);
		region.pid = (pid_t)atoi(argv[1]);
		usleep((useconds_t)atoi(argv[2]) * 1000);
		printf("%d\n", csight_region_end(&region, c));
	}
	csight_close(c);
	return 0;
}
