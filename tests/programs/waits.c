/* SPDX-License-Identifier: MIT */
/*
 * Requests that sleep, that compute, and that wait for a lock: sleeping_request() for at least 50 ms, locked_request()
 * for at least 20 ms. The last two threads compute on one CPU.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int waiter; /* thread that is about to take the lock */

static apart uint64_t work(uint32_t *state, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += next_random(state) % 7 ? i : sum;
	return sum;
}

static apart uint64_t sleeping_request(void)
{
	struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
	uint32_t state = 1;

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause))
		;
	return work(&state, 1000);
}

static apart uint64_t computing_request(void)
{
	uint32_t state = 2;

	return work(&state, 15000);
}

static apart void locked_request(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void *run_waiter(void *user)
{
	waiter = (int)syscall(SYS_gettid);
	locked_request();
	return user;
}

static int sleeps(int tid)
{
	char path[64], text[256] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f || !fgets(text, sizeof(text), f))
		return 0;
	fclose(f);
	end = strrchr(text, ')');
	return end && end[2] == 'S';
}

static apart void hold_lock(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 }, pause = { .tv_nsec = 20 * 1000 * 1000 };
	pthread_t thread;

	pthread_mutex_lock(&lock);
	pthread_create(&thread, NULL, run_waiter, NULL);
	while (!waiter || !sleeps(waiter))
		nanosleep(&moment, NULL);
	nanosleep(&pause, NULL);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

static apart uint64_t pinned_request(uint32_t seed)
{
	return work(&seed, 25000);
}

static void *run_pinned(void *user)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	return (void *)(uintptr_t)pinned_request((uint32_t)(uintptr_t)user);
}

int main(void)
{
	pthread_t threads[2];
	uint64_t sum = sleeping_request() + computing_request();

	hold_lock();
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run_pinned, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return sum == 0;
}
