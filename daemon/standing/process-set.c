/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>

#include "daemon/standing/process-set.h"

/* The kernel's limit for pid_max. Pages of the set in which no bit was ever set take no memory. */
enum { PIDS = 1 << 22 };

struct process_set {
	uint8_t bits[PIDS / 8];
};

struct process_set *process_set_new(void)
{
	return calloc(1, sizeof(struct process_set));
}

struct process_set *process_set_free(struct process_set *s)
{
	free(s);
	return NULL;
}

bool process_set_has(const struct process_set *s, pid_t pid)
{
	return s && pid > 0 && pid < PIDS && s->bits[pid / 8] & 1 << pid % 8;
}

void process_set_put(struct process_set *s, pid_t pid, bool in)
{
	if (!s || pid <= 0 || pid >= PIDS)
		return;
	if (in)
		s->bits[pid / 8] |= (uint8_t)(1 << pid % 8);
	else
		s->bits[pid / 8] &= (uint8_t) ~(1 << pid % 8);
}
