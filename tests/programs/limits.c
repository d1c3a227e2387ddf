/* SPDX-License-Identifier: MIT */
/*
 * Uses up what the emulator has little of. Prints what it finds.
 *
 * usage: limits threads N   N threads, of which each creates the next one and ends
 */
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "program.h"

enum { STACK = 64 << 10 };

static pthread_attr_t small;
static sem_t done;
static unsigned long left;

static void *create_next(void *unused)
{
	pthread_t thread;

	if (--left)
		pthread_create(&thread, &small, create_next, unused);
	else
		sem_post(&done);
	return NULL;
}

static int use_threads(unsigned long n)
{
	left = n + 1;
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	create_next(NULL);
	sem_wait(&done);
	return result(left);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	if (argc > 2 && strcmp(what, "threads") == 0)
		return use_threads(strtoul(argv[2], NULL, 0));
	return 1;
}
