/* SPDX-License-Identifier: MIT */
/*
 * Requests of about a thousand instructions each, between system calls, of which one takes two hundred times as many.
 * Prints its number, from 1 on. Some requests are the first to run some code, which the emulator must translate.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { REQUESTS = 600, SLOW = 421 };

static apart uint64_t work(uint32_t *state, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += next_random(state) % 7 ? i : sum;
	return sum;
}

static apart uint64_t handle_request(unsigned number)
{
	uint32_t state = number;
	char text[64];

	if (number % 100 == 0)
		snprintf(text, sizeof(text), "%u %f", number, number / 3.0);
	return work(&state, number == SLOW ? 20000 : 80 + number % 16);
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	uint64_t sum = 0;

	for (unsigned i = 1; i <= REQUESTS; i++) {
		sum += handle_request(i);
		if (i % 32 == 0)
			nanosleep(&pause, NULL);
		if (write(STDERR_FILENO, "", 0) < 0)
			return 1;
	}
	printf("%d\n", SLOW);
	return sum == 0;
}
