/* SPDX-License-Identifier: MIT */
/* lib/emu/thread-clock.c: a sleep blocks the thread for as long as it lasts, however often others take its CPU. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/emu/thread-clock.h"
#include "tests/unit.h"

enum { SYSCALL_NANOSLEEP = 101 }; /* of aarch64 */
enum { SLEEPS = 500, SLEEP_NS = 2000000, ROUNDING_NS = 100000, BUSY_NS = 300000, IDLE_NS = 30000 };

static atomic_bool done;

static void use_cpu(int cpu, int policy)
{
	const struct sched_param none = { 0 };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0 || sched_setscheduler(0, policy, &none) < 0)
		abort();
}

/* Takes the CPU again and again, and leaves it for a moment. */
static void *compete(void *arg)
{
	const struct timespec idle = { .tv_nsec = IDLE_NS };

	use_cpu((int)(intptr_t)arg, SCHED_OTHER);
	while (!done) {
		uint64_t begin = now_ns(CLOCK_MONOTONIC);

		while (now_ns(CLOCK_MONOTONIC) - begin < BUSY_NS)
			;
		nanosleep(&idle, NULL);
	}
	return NULL;
}

static void test_sleeps(void)
{
	const struct timespec sleep = { .tv_nsec = SLEEP_NS };
	const uint64_t args[6] = { 0 };
	struct thread_clock c = { 0 };
	unsigned shorter = 0;
	uint64_t time, least = UINT64_MAX;

	thread_clock_begin(&c);
	time = c.base;
	for (unsigned i = 0; i < SLEEPS; i++) {
		struct clock_split split;

		thread_clock_enter(&c, SYSCALL_NANOSLEEP, args, time);
		nanosleep(&sleep, NULL);
		time = thread_clock_return(&c, &(struct syscall_return){ .number = SYSCALL_NANOSLEEP, .args = args },
					   time, &split);
		shorter += split.blocked < SLEEP_NS - ROUNDING_NS;
		least = MIN(least, split.blocked);
	}
	printf("# the shortest of %u sleeps of %u us: %ju us\n", SLEEPS, SLEEP_NS / 1000, (uintmax_t)least / 1000);
	CHECK_EQ(shorter, 0);
}

int main(void)
{
	int cpu = sched_getcpu();
	pthread_t other;

	CHECK_EQ(thread_clock_init(), 0);
	CHECK_EQ(pthread_create(&other, NULL, compete, (void *)(intptr_t)cpu), 0);
	use_cpu(cpu, SCHED_IDLE);
	test_sleeps();
	done = true;
	pthread_join(other, NULL);
	return unit_end();
}
