/*
 * Every process of the machine, as far as the kernel's records told since they are read: so that one which becomes a
 * target has a past, where everything is traced. On the capture lane.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_BIRTHS_H
#define CSIGHT_DAEMON_CAPTURE_BIRTHS_H

#include "daemon/capture/perf/tasks.h"

struct births;

int births_new(struct births **ret);
struct births *births_free(struct births *b);

/* FORK, EXIT and COMM records matter; of processes, which are dropped when they end. */
void births_record(struct births *b, uint32_t pid, const struct pevent_record *r);

/* Nothing is known of what was before now but who is there. */
void births_reset(struct births *b, uint64_t now);

/*
 * What is known of a process moves to ret; the time since which it has been the program that it is, 0: not known. The
 * kernel says of one that gains rights by executing that it ended, and no more until it executes again.
 */
uint64_t births_take(struct births *b, uint32_t pid, struct tasks *ret);

/* Back again; t is taken and left empty. */
void births_give(struct births *b, struct tasks *t);

#endif
