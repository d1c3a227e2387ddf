/* SPDX-License-Identifier: MIT */
/* Eight busy threads, each with the given number of rounds of calls, indirect calls, loops and some system calls. */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

static unsigned long rounds;

static apart uint32_t left_turn(uint32_t v)
{
	return v * 5 + 1;
}

static apart uint32_t right_turn(uint32_t v)
{
	return v % 7 ? v ^ v >> 3 : v + 99;
}

static apart uint32_t walk(uint32_t v, int depth)
{
	uint32_t (*turns[])(uint32_t) = { left_turn, right_turn };

	if (depth == 0)
		return turns[v >> 4 & 1](v);
	return walk(turns[v >> 5 & 1](v), depth - 1) + (uint32_t)depth;
}

static void *work(void *arg)
{
	uint32_t v = (uint32_t)(uintptr_t)arg;

	for (unsigned long i = 0; i < rounds; i++) {
		for (int k = 0; k < 50; k++)
			v = walk(v + (uint32_t)k, (int)(v >> 8 & 15));
		if (v % 16 == 0)
			getppid();
	}
	return (void *)(uintptr_t)v;
}

int main(int argc, char **argv)
{
	pthread_t threads[8];
	uint64_t sum = 0;

	rounds = size_of(argc, argv, 40);
	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 8; i++) {
		void *v;

		pthread_join(threads[i], &v);
		sum += (uintptr_t)v;
	}
	return result(sum);
}
