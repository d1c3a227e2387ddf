/*
 * Every process of the machine, as far as the kernel's records told since they are read: so that one which becomes a
 * target has a past, where everything is traced. On the capture lane.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PROCESS_TABLE_H
#define CSIGHT_DAEMON_CAPTURE_PROCESS_TABLE_H

#include "daemon/capture/perf/thread-table.h"

struct process_table;

int process_table_new(struct process_table **ret);
struct process_table *process_table_free(struct process_table *b);

/* FORK, EXIT and COMM records matter; of processes, which are dropped when they end. */
void process_table_record(struct process_table *b, uint32_t pid, const struct perf_record *r);

/* Nothing is known of what was before now but who is there. */
void process_table_reset(struct process_table *b, uint64_t now);

/*
 * What is known of a process moves to ret; the time since which it has been the program that it is, 0: not known. The
 * kernel says of one that gains rights by executing that it ended, and no more until it executes again.
 */
uint64_t process_table_take(struct process_table *b, uint32_t pid, struct thread_table *ret);

/* Back again; t is taken and left empty. */
void process_table_put_back(struct process_table *b, struct thread_table *t);

#endif
