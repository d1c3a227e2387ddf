/* SPDX-License-Identifier: MIT */
/* Threads that migrate between CPUs: by their own calls, and by those of another thread while they work. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "program.h"

enum { WORKERS = 2 };

static pid_t workers[WORKERS];

static apart uint32_t work(uint32_t v, int n)
{
	for (int i = 0; i < n; i++)
		v = v % 7 ? v * 3 + 5 : v >> 2;
	return v;
}

static void send_to(pid_t tid, long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	sched_setaffinity(tid, sizeof(set), &set);
}

/* Works while another thread changes its CPU. */
static void *worker(void *arg)
{
	uintptr_t v = (uintptr_t)arg;

	__atomic_store_n(&workers[v], gettid(), __ATOMIC_RELEASE);
	for (int i = 0; i < 20; i++)
		v = work((uint32_t)v, 2000);
	return (void *)v;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[WORKERS];
	uint32_t v = 1;

	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, worker, (void *)i);
	for (unsigned long round = size_of(argc, argv, 40); round; round--) {
		send_to(0, (long)round % cpus);
		v = work(v, 300);
		for (int i = 0; i < WORKERS; i++) {
			pid_t tid = __atomic_load_n(&workers[i], __ATOMIC_ACQUIRE);

			if (tid)
				send_to(tid, (long)(round / 2 + (unsigned long)i) % cpus);
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		void *w;

		pthread_join(threads[i], &w);
		v += (uint32_t)(uintptr_t)w;
	}
	return result(v);
}
