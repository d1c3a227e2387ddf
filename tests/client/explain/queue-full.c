/* SPDX-License-Identifier: MIT */
/* A queue of jobs is full once, and the thread that submits waits until the writer has made room. */
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "planted.h"

#define ROOM 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, room = PTHREAD_COND_INITIALIZER;
static uint32_t jobs[ROOM], queued, written;
static bool flushing, finished;

static apart void write_jobs(void)
{
	for (uint32_t i = 0; i < queued; i++)
		written += compute(jobs[i], 20);
	nanosleep(&(struct timespec){ .tv_nsec = queued == ROOM ? 30000000 : 100000 }, NULL);
	queued = 0;
}

static void *writer(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!flushing && !finished)
			pthread_cond_wait(&work, &lock);
		if (finished)
			break;
		write_jobs();
		flushing = false;
		pthread_cond_broadcast(&room);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static apart void wait_for_room(void)
{
	flushing = true;
	pthread_cond_signal(&work);
	while (flushing)
		pthread_cond_wait(&room, &lock);
}

static apart void submit_job(uint32_t job)
{
	uint32_t checked = compute(job, 100);

	pthread_mutex_lock(&lock);
	if (queued == ROOM)
		wait_for_room();
	jobs[queued++] = checked;
	pthread_mutex_unlock(&lock);
}

static apart void flush(void)
{
	pthread_mutex_lock(&lock);
	wait_for_room();
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	pthread_t thread;

	planted("submit_job", "wait_for_room");
	if (pthread_create(&thread, NULL, writer, NULL))
		return 1;
	for (uint32_t batch = 0; batch < 10; batch++) {
		uint32_t jobs_of_batch = batch == 6 ? ROOM + 4 : ROOM - 8;

		for (uint32_t i = 0; i < jobs_of_batch; i++)
			submit_job(batch * 100 + i);
		flush();
	}
	pthread_mutex_lock(&lock);
	finished = true;
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	return 0;
}
