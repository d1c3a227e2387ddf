/* SPDX-License-Identifier: MIT */
/* A request waits for a lock, since another thread holds it while it writes a file: the thread to blame is that one. */
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "planted.h"

static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, held;
static uint32_t entries;

static void wait_for_disk(void)
{
	const struct timespec moment = { .tv_nsec = 30 * 1000 * 1000 };

	nanosleep(&moment, NULL);
}

static apart void save_index(void)
{
	pthread_mutex_lock(&index_lock);
	sem_post(&held);
	wait_for_disk();
	pthread_mutex_unlock(&index_lock);
}

static void *run_saver(void *user)
{
	sem_wait(&wanted);
	save_index();
	return user;
}

static apart uint32_t find_entry(uint32_t key)
{
	uint32_t entry;

	pthread_mutex_lock(&index_lock);
	entry = compute(key, 100) + ++entries;
	pthread_mutex_unlock(&index_lock);
	return entry;
}

static apart uint32_t request(uint32_t key)
{
	return find_entry(compute(key, 200));
}

int main(void)
{
	pthread_t saver;

	planted("request", "save_index");
	sem_init(&wanted, 0, 0);
	sem_init(&held, 0, 0);
	pthread_create(&saver, NULL, run_saver, NULL);
	for (uint32_t i = 0; i < 80; i++) {
		if (i == 55) {
			sem_post(&wanted);
			sem_wait(&held);
		}
		used(request(i));
	}
	pthread_join(saver, NULL);
	return 0;
}
