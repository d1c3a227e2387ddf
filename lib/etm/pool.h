/*
 * Threads that do jobs, in the order in which they were given, several at once. Made and ended by one thread, and jobs
 * are given by that one. They take no signals but those of their own crashes.
 */
#ifndef CSIGHT_ETM_POOL_H
#define CSIGHT_ETM_POOL_H

#include <stdint.h>

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
	struct pool_job *next;
};

void pool_give(struct pool *p, struct pool_job *job);

/* After the last job has been run. NULL. */
struct pool *pool_free(struct pool *p);

#endif
