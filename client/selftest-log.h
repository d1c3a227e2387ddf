/* SPDX-License-Identifier: MIT */
/*
 * The instructions of the known program that csight selftest compares: those of a decode, of the emulator's log, or of
 * single steps. Only those between start and stop are kept, or all if stop is 0. Functions return negative errno;
 * -E2BIG: there are more than the known program executes.
 */
#ifndef CSIGHT_CLIENT_SELFTEST_LOG_H
#define CSIGHT_CLIENT_SELFTEST_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/util.h"

struct selftest_thread {
	uint32_t tid;
	uint64_t *pcs; /* relative to start */
	size_t n, capacity;
	size_t *marks; /* numbers of instructions before which something may be missing */
	size_t n_marks, marks_capacity;
	size_t n_gaps;           /* marks after the first instruction of the thread, of whatever address */
	uint64_t executed;       /* instructions of whatever address */
	uint64_t wrong_times;    /* timestamps outside of the run, or before their predecessor */
	uint64_t wrong_contexts; /* context IDs of another thread */
	uint64_t time;           /* the last timestamp */
	bool stepped;            /* the last single steps have reached what is compared */
};

struct selftest_log {
	uint64_t start, stop;      /* the addresses of what is compared */
	uint64_t earliest, latest; /* bounds of timestamps; 0: unknown */
	struct selftest_thread *threads;
	size_t n, capacity;
};

/* Reads what `csight decode --to elements --by-thread` prints. -EBADMSG: f is something else. */
int selftest_log_read_decode(struct selftest_log *log, FILE *f);

/* Reads the emulator's log in a directory; threads in the order in which they began. */
int selftest_log_read_truth(struct selftest_log *log, const char *dir);

/* Reads the addresses that the program printed to a file. -EBADMSG: none. */
int selftest_log_read_addresses(struct selftest_log *log, const char *path);

/*
 * Runs the program, what is compared by single steps, with its standard output in a file, which has the addresses.
 * -EIO: it failed.
 */
int selftest_log_step(struct selftest_log *log, const char *program, const char *output);

void selftest_log_done(struct selftest_log *log);
#define _cleanup_selftest_log_ _cleanup_(selftest_log_done)

/*
 * For the readers: the first returns the thread with this ID, which is added if it is new, or NULL without memory; the
 * second adds an instruction to a thread.
 */
struct selftest_thread *selftest_log_thread(struct selftest_log *log, uint32_t tid);
int selftest_log_add(const struct selftest_log *log, struct selftest_thread *t, uint64_t pc);

struct selftest_result {
	uint64_t compared, missing, unmarked, different, gaps, executed, wrong_times, wrong_contexts;
};

/*
 * Adds what a comparison of each thread found. same_process: the logs have the same thread IDs; else threads correspond
 * in their order. missing: instructions of the truth that are not in the decode, where it has a gap; unmarked: those
 * where it has none; different: instructions from the first one on that the truth does not have there.
 */
void selftest_log_compare(const struct selftest_log *truth, const struct selftest_log *decode, bool same_process,
			  struct selftest_result *ret);

#endif
