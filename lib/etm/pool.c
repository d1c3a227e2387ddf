/* SPDX-License-Identifier: MIT */
#include "lib/etm/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "lib/base/util.h"

/* The oldest jobs that threads leave to the owner: two, so that it need not wait for one that takes longer. */
enum { LEFT = 2 };

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t submitted;
	TAILQ_HEAD(, pool_job) jobs;
	bool closing;
	unsigned n;
	pthread_t threads[];
};

static void job_dequeue(struct pool *p, struct pool_job *job)
{
	TAILQ_REMOVE(&p->jobs, job, link);
	job->queued = false;
}

static struct pool_job *job_next(struct pool *p)
{
	struct pool_job *job = TAILQ_FIRST(&p->jobs);

	for (unsigned i = 0; i < LEFT && job && TAILQ_NEXT(job, link); i++)
		job = TAILQ_NEXT(job, link);
	if (job)
		job_dequeue(p, job);
	return job;
}

static void *run_jobs(void *user)
{
	struct pool *p = user;
	struct pool_job *job;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (TAILQ_EMPTY(&p->jobs) && !p->closing)
			pthread_cond_wait(&p->submitted, &p->lock);
		job = job_next(p);
		if (!job)
			break;
		pthread_mutex_unlock(&p->lock);
		job->run(job->user);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int pool_new(unsigned threads, struct pool **ret)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS };
	struct pool *p = calloc(1, sizeof(*p) + threads * sizeof(p->threads[0]));
	sigset_t none, before;
	int rc = 0;

	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->submitted, NULL);
	TAILQ_INIT(&p->jobs);
	sigfillset(&none);
	for (unsigned i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigdelset(&none, crashes[i]);
	pthread_sigmask(SIG_SETMASK, &none, &before);
	for (; p->n < threads && rc == 0; p->n += rc == 0)
		rc = pthread_create(&p->threads[p->n], NULL, run_jobs, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!p->n) {
		pool_free(p);
		return -rc;
	}
	*ret = p;
	return 0;
}

unsigned pool_threads(const struct pool *p)
{
	return p->n;
}

uint64_t pool_time(const struct pool *p, unsigned thread)
{
	clockid_t clock;

	return pthread_getcpuclockid(p->threads[thread], &clock) == 0 ? now_ns(clock) : 0;
}

void pool_submit(struct pool *p, struct pool_job *job)
{
	pthread_mutex_lock(&p->lock);
	TAILQ_INSERT_TAIL(&p->jobs, job, link);
	job->queued = true;
	pthread_cond_signal(&p->submitted);
	pthread_mutex_unlock(&p->lock);
}

bool pool_withdraw(struct pool *p, struct pool_job *job)
{
	bool queued;

	pthread_mutex_lock(&p->lock);
	queued = job->queued;
	if (queued)
		job_dequeue(p, job);
	pthread_mutex_unlock(&p->lock);
	return queued;
}

struct pool *pool_free(struct pool *p)
{
	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	p->closing = true;
	pthread_cond_broadcast(&p->submitted);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->submitted);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}
