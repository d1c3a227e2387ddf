/* SPDX-License-Identifier: MIT */
/*
 * A program that executes itself repeatedly, from its first thread and from another while the first waits, and finally
 * executes the program "loops" in its directory: other code at the same addresses. With a second argument "paced" it
 * pauses before each exec.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

static char **arguments, *paced;
static unsigned long left;

static apart uint32_t work(uint32_t v)
{
	for (int i = 0; i < 3000; i++)
		v = v % 3 ? v * 5 + 1 : v >> 1;
	return v;
}

static apart void execute(void)
{
	char path[4096], size[32];
	const struct timespec pause = { 0, 700000000 };
	const char *slash = NULL;

	if (paced)
		nanosleep(&pause, NULL);
	for (const char *c = arguments[0]; *c; c++)
		if (*c == '/')
			slash = c;
	snprintf(size, sizeof(size), "%lu", left ? left - 1 : 3000);
	snprintf(path, sizeof(path), "%.*s/loops", slash ? (int)(slash - arguments[0]) : 1, slash ? arguments[0] : ".");
	execv(left ? arguments[0] : path, (char *[]){ left ? arguments[0] : path, size, paced, NULL });
	perror("execs");
	_exit(1);
}

static void *other(void *arg)
{
	*(volatile uint32_t *)arg = work((uint32_t)left + 7);
	execute();
	return NULL;
}

int main(int argc, char **argv)
{
	uint32_t v = work((uint32_t)argc);
	pthread_t thread;

	arguments = argv;
	left = size_of(argc, argv, 4);
	paced = argc > 2 ? argv[2] : NULL;
	if (left % 2) {
		pthread_create(&thread, NULL, other, &v);
		pthread_join(thread, NULL);
	}
	execute();
	return result(v);
}
