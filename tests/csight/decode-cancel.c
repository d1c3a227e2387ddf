/* SPDX-License-Identifier: MIT */
/*
 * decode-cancel INPUT ROUNDS: cancels a decode to calls from two other threads, at moments from before its beginning
 * to after its end. Each decode must end, whole or cancelled, without leaving a process. Prints how many were which,
 * and the longest time from a cancellation to the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/csight/csight.h"

enum { CANCELLERS = 2 };

struct canceller {
	struct csight_decode *decode;
	pthread_barrier_t *begin;
	uint64_t delay_ns;
	_Atomic uint64_t at_ns; /* 0: not yet */
	int rc;
};

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *cancel(void *data)
{
	struct canceller *c = data;
	const struct timespec delay = { (time_t)(c->delay_ns / 1000000000u), (long)(c->delay_ns % 1000000000u) };

	pthread_barrier_wait(c->begin);
	nanosleep(&delay, NULL);
	atomic_store(&c->at_ns, monotonic_ns());
	c->rc = csight_decode_cancel(c->decode);
	return NULL;
}

static int run(struct csight_decode *d, uint64_t delay_ns, uint64_t *ret_late_ns)
{
	struct canceller cancellers[CANCELLERS];
	pthread_t threads[CANCELLERS];
	pthread_barrier_t begin;
	uint64_t end, at;
	int rc;

	pthread_barrier_init(&begin, NULL, CANCELLERS + 1);
	for (size_t i = 0; i < CANCELLERS; i++) {
		cancellers[i] = (struct canceller){ .decode = d, .begin = &begin, .delay_ns = delay_ns };
		if (pthread_create(&threads[i], NULL, cancel, &cancellers[i]) != 0)
			abort();
	}
	pthread_barrier_wait(&begin);
	rc = csight_decode_run(d, NULL, NULL, NULL);
	end = monotonic_ns();
	for (size_t i = 0; i < CANCELLERS; i++) {
		pthread_join(threads[i], NULL);
		at = atomic_load(&cancellers[i].at_ns);
		if (rc == -ECANCELED && at < end && end - at > *ret_late_ns)
			*ret_late_ns = end - at;
		if (cancellers[i].rc < 0)
			rc = cancellers[i].rc;
	}
	pthread_barrier_destroy(&begin);
	return rc;
}

/* Decodes once; delay_ns NULL: without a cancellation. */
static int decode(struct csight *c, const char *input, const uint64_t *delay_ns, uint64_t *ret_late_ns)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), rc;
	struct csight_decode *d = NULL;

	rc = csight_decode_open(c, input, NULL, &d);
	if (rc == 0)
		rc = csight_decode_output(d, "calls", fd);
	if (rc == 0)
		rc = delay_ns ? run(d, *delay_ns, ret_late_ns) : csight_decode_run(d, NULL, NULL, NULL);
	csight_decode_close(d);
	close(fd);
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		rc = -ECHILD;
	return rc;
}

int main(int argc, char **argv)
{
	uint64_t from = monotonic_ns(), whole_ns, late_ns = 0, delay;
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 0, cancelled = 0;
	struct csight *c = NULL;
	int rc = rounds && csight_open(NULL, &c) == 0 ? decode(c, argv[1], NULL, NULL) : -EINVAL;

	whole_ns = monotonic_ns() - from;
	for (unsigned i = 0; rc == 0 && i < rounds; i++) {
		delay = whole_ns * 5 / 4 * i / rounds;
		rc = decode(c, argv[1], &delay, &late_ns);
		cancelled += rc == -ECANCELED;
		rc = rc == -ECANCELED ? 0 : rc;
	}
	if (rc < 0)
		printf("%s: %s\n", strerrorname_np(-rc), c ? csight_error(c) : "");
	else
		printf("%u cancelled, %u whole, at most %" PRIu64 " ms until the end\n", cancelled, rounds - cancelled,
		       late_ns / 1000000);
	csight_close(c);
	return rc < 0 || !cancelled;
}
