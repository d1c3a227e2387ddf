#include "lib/etm/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "lib/base/util.h"

enum { LEFT = 2 };

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t given;
	TAILQ_HEAD(, pool_job) jobs;
	bool ends;
	unsigned n;
	pthread_t threads[];
};

static void drop(struct pool *p, struct pool_job *job)
{
	TAILQ_REMOVE(&p->jobs, job, link);
	job->waits = false;
}

/* Those that are left are two, so that nobody has to wait for one that takes somewhat longer. */
static struct pool_job *next_job(struct pool *p)
{
	struct pool_job *job = TAILQ_FIRST(&p->jobs);

	for (unsigned i = 0; i < LEFT && job && TAILQ_NEXT(job, link); i++)
		job = TAILQ_NEXT(job, link);
	if (job)
		drop(p, job);
	return job;
}

static void *work(void *user)
{
	struct pool *p = user;
	struct pool_job *job;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (TAILQ_EMPTY(&p->jobs) && !p->ends)
			pthread_cond_wait(&p->given, &p->lock);
		job = next_job(p);
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
	pthread_cond_init(&p->given, NULL);
	TAILQ_INIT(&p->jobs);
	sigfillset(&none);
	for (unsigned i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigdelset(&none, crashes[i]);
	pthread_sigmask(SIG_SETMASK, &none, &before);
	for (; p->n < threads && rc == 0; p->n += rc == 0)
		rc = pthread_create(&p->threads[p->n], NULL, work, p);
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
	job->waits = true;
	pthread_cond_signal(&p->given);
	pthread_mutex_unlock(&p->lock);
}

bool pool_withdraw(struct pool *p, struct pool_job *job)
{
	bool waits;

	pthread_mutex_lock(&p->lock);
	waits = job->waits;
	if (waits)
		drop(p, job);
	pthread_mutex_unlock(&p->lock);
	return waits;
}

struct pool *pool_free(struct pool *p)
{
	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	p->ends = true;
	pthread_cond_broadcast(&p->given);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->given);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}
