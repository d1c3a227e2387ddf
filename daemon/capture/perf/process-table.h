/* SPDX-License-Identifier: MIT */
/*
 * All processes of the machine, according to the sideband. Where everything is traced at all times, a process that
 * becomes a target thereby has a history. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PROCESS_TABLE_H
#define CSIGHT_DAEMON_CAPTURE_PROCESS_TABLE_H

#include "daemon/capture/perf/thread-table.h"

struct process_table;

int process_table_new(struct process_table **ret);
struct process_table *process_table_free(struct process_table *b);

/* Adds a FORK, EXIT or COMM record of a process. Ended processes are removed. */
void process_table_record(struct process_table *b, uint32_t pid, const struct perf_record *r);

/* Forgets everything but the processes that exist now. */
void process_table_reset(struct process_table *b, uint64_t now);

/*
 * Moves the threads of a process to ret. Returns the time since which it has been the same program; 0: unknown. A
 * process that gains privileges by an exec has ended here, and is unknown until its next exec.
 */
uint64_t process_table_take(struct process_table *b, uint32_t pid, struct thread_table *ret);

/* Moves the threads of a former target back; t is empty afterwards. */
void process_table_put_back(struct process_table *b, struct thread_table *t);

#endif
