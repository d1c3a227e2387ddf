/* SPDX-License-Identifier: MIT */
#include "daemon/ancestors.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/util.h"

static const uint64_t age_ns = 10000000;

pid_t ancestors_parent(struct ancestors *a, pid_t pid)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	pid_t parent = 0;
	uint32_t *known;
	int rc;

	if (now - a->since_ns > age_ns) {
		hash_clear(&a->parents);
		a->since_ns = now;
	}
	rc = hash_find(&a->parents, (uint64_t)pid, 0, &known);
	if (rc < 0)
		return 0;
	if (rc == 0 && *known)
		return (pid_t)*known;
	proc_file_parent(pid, &parent);
	*known = (uint32_t)parent;
	return parent;
}

void ancestors_done(struct ancestors *a)
{
	hash_done(&a->parents);
}
