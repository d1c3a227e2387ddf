/* SPDX-License-Identifier: MIT */
/* Threads that touch new pages. Each appends its number to a file, and the page faults that the kernel has counted. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

enum { PAGES = 64, PAGE = 4096, THREADS = 3 };

static unsigned long rounds;
static FILE *counted;

static void touch(void)
{
	volatile char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; at != MAP_FAILED && i < PAGES; i++)
		at[i * PAGE] = 1;
	munmap((void *)at, PAGES * PAGE);
}

static apart void *work(void *arg)
{
	uint32_t state = (uint32_t)(uintptr_t)arg | 1;
	struct rusage usage = { 0 };
	uint32_t sum = 0;

	for (unsigned long i = 0; i < rounds; i++) {
		touch();
		for (int k = 0; k < 2000; k++)
			sum += next_random(&state);
	}
	getrusage(RUSAGE_THREAD, &usage);
	fprintf(counted, "%ld %ld\n", (long)syscall(SYS_gettid), usage.ru_minflt + usage.ru_majflt);
	return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	void *sum = NULL;

	rounds = size_of(argc, argv, 40);
	counted = argc > 2 ? fopen(argv[2], "a") : stderr;
	if (!counted)
		return 1;
	setvbuf(counted, NULL, _IOLBF, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], &sum);
	work(sum);
	return result(0);
}
