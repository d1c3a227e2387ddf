/* SPDX-License-Identifier: MIT */
/* Four threads take jobs from one queue: a mutex, conditions, and jobs of different sizes. */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

enum { THREADS = 4, QUEUE = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static uint32_t queue[QUEUE];
static unsigned first, n_queued;
static int ended;

static apart void put_job(uint32_t job)
{
	pthread_mutex_lock(&lock);
	while (n_queued == QUEUE)
		pthread_cond_wait(&emptied, &lock);
	queue[(first + n_queued++) % QUEUE] = job;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

static apart int take_job(uint32_t *job)
{
	int taken;

	pthread_mutex_lock(&lock);
	while (!n_queued && !ended)
		pthread_cond_wait(&filled, &lock);
	taken = n_queued != 0;
	if (taken) {
		*job = queue[first];
		first = (first + 1) % QUEUE;
		n_queued--;
		pthread_cond_signal(&emptied);
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

static apart uint32_t encode_part(uint32_t v)
{
	for (int i = 0; i < 8; i++)
		v = v >> 1 ^ (v & 1 ? 0xedb88320u : 0);
	return v;
}

static apart uint32_t do_job(uint32_t job)
{
	uint32_t v = job;

	for (uint32_t i = 0; i < 1 + job % 50; i++)
		v = encode_part(v);
	return planted_work(v);
}

static void *work(void *arg)
{
	uint32_t job, sum = 0;

	while (take_job(&job))
		sum += do_job(job);
	*(uint32_t *)arg = sum;
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long n = size_of(argc, argv, 3000);
	uint32_t state = (uint32_t)getpid() * 2654435761u | 1, sums[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, &sums[i]);
	for (unsigned long i = 0; i < n; i++)
		put_job(next_random(&state));
	pthread_mutex_lock(&lock);
	ended = 1;
	pthread_cond_broadcast(&filled);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return result(sums[0] + sums[1] + sums[2] + sums[3]);
}
