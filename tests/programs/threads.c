/* SPDX-License-Identifier: MIT */
/* Threads that begin and end while others work, with a lock between them. */
#include <pthread.h>

#include "program.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t total;

static void *work(void *arg)
{
	uint32_t state = (uint32_t)(uintptr_t)arg | 1;
	uint64_t sum = 0;

	for (int i = 0; i < 1500; i++)
		sum += next_random(&state) % 3 ? 1 : state >> 3;
	pthread_mutex_lock(&lock);
	total += sum;
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	for (unsigned long round = size_of(argc, argv, 4); round; round--) {
		pthread_t threads[5];

		for (uintptr_t i = 0; i < 5; i++)
			pthread_create(&threads[i], NULL, work, (void *)(round * 5 + i));
		work((void *)(uintptr_t)(round + 1000));
		for (int i = 0; i < 5; i++)
			pthread_join(threads[i], NULL);
	}
	return result(total);
}
