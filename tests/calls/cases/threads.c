/* SPDX-License-Identifier: MIT */
/* Threads that start and end: by return, by pthread_exit in a callee, by cancellation. */
#include <pthread.h>
#include <unistd.h>

#include "case.h"

apart unsigned work(unsigned n)
{
	return n ? used(work(n - 1)) + 1 : 0;
}

apart void leave(unsigned n)
{
	if (used(n) == 0)
		pthread_exit(NULL);
	if (n)
		leave(n - 1);
	used(n);
}

static void *body(void *arg)
{
	unsigned n = (unsigned)(size_t)arg;

	work(n);
	if (n % 3 == 1)
		leave(n);
	if (n % 3 == 2)
		for (;;)
			usleep(2000);
	return arg;
}

int main(void)
{
	pthread_t threads[6];

	for (size_t i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, body, (void *)i);
	for (size_t i = 0; i < 6; i++) {
		if (i % 3 == 2)
			pthread_cancel(threads[i]);
		pthread_join(threads[i], NULL);
	}
	return done(work(5));
}
