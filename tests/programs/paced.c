/* SPDX-License-Identifier: MIT */
/* For each line "COUNT STEPS" of its standard input, calls paced() so many times with so many steps; prints "done". */
#include "program.h"

static apart uint64_t paced(unsigned steps)
{
	uint32_t seed = 1;

	for (unsigned i = 0; i < steps; i++)
		next_random(&seed);
	/* Or one call would do for all of a line. */
	__asm__ volatile("" ::: "memory");
	return seed;
}

int main(void)
{
	unsigned count, steps;
	uint64_t sum = 0;

	puts("ready");
	fflush(stdout);
	while (scanf("%u %u", &count, &steps) == 2) {
		while (count--)
			sum += paced(steps);
		puts("done");
		fflush(stdout);
	}
	return sum == 1;
}
