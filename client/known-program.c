/* SPDX-License-Identifier: MIT */
/*
 * csight-known, which csight selftest records: calls, recursion, indirect branches, loops, a signal and a second
 * thread. What is compared is in a section of its own, whose addresses the program prints; it has no atomic operation,
 * because a single-stepped exclusive store never succeeds. A debugger executes it alone by single steps: SIGURG, which
 * has no effect, stops the program before it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#define KNOWN __attribute__((noinline, noclone, section("csight_known")))

enum { ROUNDS = 40, DEPTH = 12, TABLE = 4 };

extern const char __start_csight_known[], __stop_csight_known[];
static volatile uint32_t handled;

KNOWN static uint32_t known_add(uint32_t x)
{
	return x + 7;
}

KNOWN static uint32_t known_mix(uint32_t x)
{
	return x ^ (x << 5);
}

KNOWN static uint32_t known_loop(uint32_t x)
{
	for (volatile uint32_t i = 0; i < (x & 7); i++)
		x = x * 3 + 1;
	return x;
}

KNOWN static uint32_t known_choose(uint32_t x)
{
	switch (x % 5) {
	case 0:
		return known_add(x);
	case 1:
		return known_mix(x) + 1;
	case 2:
		return known_loop(x);
	case 3:
		return known_mix(known_add(x));
	default:
		return x >> 1;
	}
}

KNOWN static uint32_t known_recurse(uint32_t depth, uint32_t x)
{
	return depth ? known_recurse(depth - 1, x + depth) + known_choose(x) : x;
}

static uint32_t (*volatile const table[TABLE])(uint32_t) = { known_add, known_mix, known_loop, known_choose };

KNOWN static uint32_t known_rounds(uint32_t x)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		x = table[x % TABLE](x) + i;
		x += known_recurse(x % DEPTH, x);
	}
	return x;
}

KNOWN static void known_handler(int signal)
{
	handled += known_choose((uint32_t)signal);
}

static void *run_thread(void *argument)
{
	raise(SIGURG);
	*(uint32_t *)argument = known_rounds(*(uint32_t *)argument);
	return NULL;
}

int main(void)
{
	const struct sigaction action = { .sa_handler = known_handler };
	uint32_t first, second = 2;
	pthread_t thread;

	printf("known %lx %lx\n", (unsigned long)__start_csight_known, (unsigned long)__stop_csight_known);
	fflush(stdout);
	raise(SIGURG);
	first = known_rounds(1);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	if (pthread_create(&thread, NULL, run_thread, &second) != 0)
		return 1;
	pthread_join(thread, NULL);
	raise(SIGURG);
	first += known_rounds(3);
	return first + second == handled;
}
