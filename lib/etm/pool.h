/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads that run jobs. The owner creates the pool, submits jobs, and frees it, all on one thread. It may
 * withdraw a job that no thread has begun, to do it itself; so threads leave it the oldest jobs while there are others.
 * Threads block all signals but those of their own crashes.
 */
#ifndef CSIGHT_ETM_POOL_H
#define CSIGHT_ETM_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct pool;

enum { POOL_THREADS_MAX = 64 };

/* Creates up to that many threads, as many as the system permits; at least one, or a negative errno. */
int pool_new(unsigned threads, struct pool **ret);
unsigned pool_threads(const struct pool *p);

/* Returns the processor time of a thread, in ns. */
uint64_t pool_time(const struct pool *p, unsigned thread);

/* Memory of the submitter, until the job has been run or withdrawn. */
struct pool_job {
	void (*run)(void *user);
	void *user;
	TAILQ_ENTRY(pool_job) link;
	bool queued;
};

void pool_submit(struct pool *p, struct pool_job *job);

/* Returns false if a thread has begun the job. */
bool pool_withdraw(struct pool *p, struct pool_job *job);

/* Waits until all jobs have been run. */
struct pool *pool_free(struct pool *p);

#endif
