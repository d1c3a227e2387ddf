/* SPDX-License-Identifier: MIT */
/* Two threads that record the times of calls of stamp() by two clocks, between work and sleep of various lengths. */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { STAMPS = 300 };

struct stamp {
	struct timespec monotonic, real;
};

struct thread {
	pthread_t thread;
	uint32_t seed;
	long tid;
	uint64_t sum;
	struct stamp stamps[STAMPS];
};

static apart void stamp(struct stamp *s)
{
	clock_gettime(CLOCK_MONOTONIC, &s->monotonic);
	clock_gettime(CLOCK_REALTIME, &s->real);
}

static apart uint64_t work(uint32_t *state, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += next_random(state) % 7 ? i : sum;
	return sum;
}

static void *run(void *user)
{
	struct thread *t = user;

	t->tid = syscall(SYS_gettid);
	for (int i = 0; i < STAMPS; i++) {
		const struct timespec sleep = { .tv_nsec = (long)(next_random(&t->seed) % 300000) };

		t->sum += work(&t->seed, next_random(&t->seed) % (i % 16 ? 1000 : 20000));
		if (i % 8 == 7)
			nanosleep(&sleep, NULL);
		stamp(&t->stamps[i]);
	}
	return NULL;
}

static unsigned long long ns(const struct timespec *t)
{
	return (unsigned long long)t->tv_sec * 1000000000 + (unsigned long long)t->tv_nsec;
}

int main(void)
{
	static struct thread threads[] = { { .seed = 1 }, { .seed = 2 } };

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i].thread, NULL, run, &threads[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i].thread, NULL);
		for (int k = 0; k < STAMPS; k++)
			printf("%ld %llu %llu\n", threads[i].tid, ns(&threads[i].stamps[k].monotonic),
			       ns(&threads[i].stamps[k].real));
	}
	return !(threads[0].sum + threads[1].sum);
}
