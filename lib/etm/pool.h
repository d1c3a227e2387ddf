/*
 * Threads that do jobs, several at once, beside the one that made them, gives the jobs and ends them. It may take a job
 * back that nobody has begun and do it itself; so they leave it the oldest ones while there are others. They take no
 * signals but those of their own crashes.
 */
#ifndef CSIGHT_ETM_POOL_H
#define CSIGHT_ETM_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct pool;

enum { POOL_THREADS_MAX = 64 };

/* As many threads as can be had, at most so many; at least one, or an error. */
int pool_new(unsigned threads, struct pool **ret);
unsigned pool_threads(const struct pool *p);

/* ns of processor time that a thread has had. */
uint64_t pool_time(const struct pool *p, unsigned thread);

/* Lies with whoever gave it until it has been run. */
struct pool_job {
	void (*run)(void *user);
	void *user;
	TAILQ_ENTRY(pool_job) link;
	bool waits;
};

void pool_submit(struct pool *p, struct pool_job *job);

/* False: a thread has begun it, and it will be run. */
bool pool_withdraw(struct pool *p, struct pool_job *job);

/* After the last job has been run. NULL. */
struct pool *pool_free(struct pool *p);

#endif
