/* SPDX-License-Identifier: MIT */
#ifndef CSIGHT_DAEMON_CAPTURE_PROCESS_THREADS_H
#define CSIGHT_DAEMON_CAPTURE_PROCESS_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* later: the thread has begun since the visit. An error ends process_threads_visit(), which returns it. */
typedef int (*process_threads_fn)(void *data, uint32_t tid, bool later);

/*
 * Calls a function once for each thread of a process, also for those that begin meanwhile; only: for this one, or 0 for
 * all. -ESRCH: there is no such process.
 */
int process_threads_visit(pid_t pid, uint32_t only, process_threads_fn visit, void *data);

#endif
