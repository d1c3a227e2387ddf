/* SPDX-License-Identifier: MIT */
/*
 * The ancestors of processes, for a pass over many of them: the parent of each process is read once, so that a pass
 * costs as much as there are processes, however deep their tree is. What is known is forgotten after 10 ms. Zeros are a
 * memo that knows nothing.
 */
#ifndef CSIGHT_DAEMON_ANCESTORS_H
#define CSIGHT_DAEMON_ANCESTORS_H

#include <sys/types.h>

#include "lib/base/hash.h"

struct ancestors {
	struct hash parents;
	uint64_t since_ns; /* CLOCK_MONOTONIC */
};

/* Returns the parent of a process; 0: it has ended, or memory is short. */
pid_t ancestors_parent(struct ancestors *a, pid_t pid);

void ancestors_done(struct ancestors *a);

#endif
