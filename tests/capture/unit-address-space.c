/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/process/address-space.c: a call that works is waited for, however long it takes; one that waits for
 * another, once or often, is given up, and its account rests, while others are served.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/capture/process/address-space.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { WORK_NS = 1500000000, WAITS = 20, WAIT_US = 200000 };

static const struct address_space_of anna = { 1000, 1 }, anna_too = { 1000, 2 }, bert = { 1001, 3 }, one = { 0, 4 },
				     another = { 0, 5 }, carl = { 1002, 6 }, dora = { 1003, 7 }, emil = { 1004, 8 },
				     fred = { 1005, 9 };
static sem_t dropped;
static time_t later; /* seconds that have passed at once */

/* In place of that of libc. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, ret);

	ret->tv_sec += clock == CLOCK_MONOTONIC ? later : 0;
	return rc;
}

static void work(void *data)
{
	volatile unsigned *turns = data;
	uint64_t begun = now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) - begun < WORK_NS)
		++*turns;
}

static void wait_for_byte(void *data)
{
	char c;

	CHECK_EQ(read(*(int *)data, &c, 1), 1);
}

/* As a file system in user space that answers each request after a while. */
static void wait_often(void *data)
{
	for (unsigned i = 0; i < WAITS; i++)
		usleep(WAIT_US);
	++*(unsigned *)data;
}

static void wait_short(void *data)
{
	(void)data;
	usleep(WAIT_US / 2);
}

static void wait_once(void *data)
{
	(void)data;
	usleep(2 * WAIT_US);
}

static void drop(void *data)
{
	CHECK(data != NULL);
	sem_post(&dropped);
}

static void *call_in_thread(void *data)
{
	const struct address_space_call call = { wait_for_byte, drop, data, .elsewhere = true };

	CHECK_EQ(address_space_call(emil, &call), -ETIMEDOUT);
	return NULL;
}

/* Two calls of an account wait at the same time. When both have returned, it rests no longer than a while. */
static void test_two(int *ends)
{
	const struct address_space_call call = { work, drop, &(unsigned){ 0 } };
	pthread_t threads[2];

	for (size_t i = 0; i < ELEMENTS(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, call_in_thread, &ends[0]), 0);
	for (size_t i = 0; i < ELEMENTS(threads); i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < ELEMENTS(threads); i++) {
		CHECK_EQ(address_space_call(emil, &call), -EBUSY);
		CHECK_EQ(write(ends[1], "", 1), 1);
		CHECK_EQ(sem_wait(&dropped), 0);
	}
	CHECK_EQ(address_space_call(emil, &call), -EBUSY);
	later += 61;
	CHECK_EQ(address_space_call(emil, &call), 0);
}

int main(void)
{
	unsigned turns = 0;
	int ends[2], rc = 0;

	sem_init(&dropped, 0, 0);
	CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
	CHECK_EQ(address_space_call(anna, &(struct address_space_call){ work, drop, &turns }), 0);
	CHECK(turns > 0);
	CHECK_EQ(address_space_call(anna, &(struct address_space_call){ wait_for_byte, drop, &ends[0] }), -ETIMEDOUT);
	turns = 0;
	CHECK_EQ(address_space_call(anna_too, &(struct address_space_call){ work, drop, &turns }), -EBUSY);
	CHECK_EQ(turns, 0);
	CHECK_EQ(address_space_call(bert, &(struct address_space_call){ work, drop, &turns }), 0);
	CHECK(turns > 0);
	CHECK(sem_trywait(&dropped) < 0);
	CHECK_EQ(write(ends[1], "", 1), 1);
	CHECK_EQ(sem_wait(&dropped), 0);
	/* It could do so again at once. */
	turns = 0;
	CHECK_EQ(address_space_call(anna, &(struct address_space_call){ work, drop, &turns }), -EBUSY);
	CHECK_EQ(turns, 0);
	/* Without an account, the process alone rests. */
	CHECK_EQ(address_space_call(one, &(struct address_space_call){ wait_for_byte, drop, &ends[0] }), -ETIMEDOUT);
	CHECK_EQ(address_space_call(one, &(struct address_space_call){ work, drop, &turns }), -EBUSY);
	CHECK_EQ(turns, 0);
	CHECK_EQ(address_space_call(another, &(struct address_space_call){ work, drop, &turns }), 0);
	CHECK(turns > 0);
	CHECK_EQ(write(ends[1], "", 1), 1);
	CHECK_EQ(sem_wait(&dropped), 0);
	/* A wait that is almost given up is charged, too. */
	CHECK_EQ(address_space_call(dora, &(struct address_space_call){ wait_once, drop, &turns }), 0);
	CHECK_EQ(address_space_call(dora, &(struct address_space_call){ work, drop, &turns }), -EBUSY);
	turns = 0;
	CHECK_EQ(address_space_call(carl, &(struct address_space_call){ wait_often, drop, &turns }), -ETIMEDOUT);
	CHECK_EQ(sem_wait(&dropped), 0);
	CHECK_EQ(turns, 1);
	/* As the events of many threads, each of which waits a little. */
	for (unsigned i = 0; i < WAITS && rc == 0; i++)
		rc = address_space_call(fred, &(struct address_space_call){ wait_short, drop, &turns });
	CHECK_EQ(rc, -EBUSY);
	test_two(ends);
	return unit_end();
}
