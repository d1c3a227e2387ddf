/* SPDX-License-Identifier: MIT */
/*
 * Calls a function for each line of its standard input: before_event() for "b", after_event() for "a". Between two
 * lines it sleeps, so that many of these programs cost nothing.
 */
#include <unistd.h>

#include "program.h"

static apart uint64_t compute(uint32_t seed)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 500; i++)
		sum += next_random(&seed) % 3;
	return sum;
}

static apart uint64_t before_event(uint32_t seed)
{
	return compute(seed) + 1;
}

static apart uint64_t after_event(uint32_t seed)
{
	return compute(seed) + 2;
}

int main(void)
{
	uint64_t sum = 0;
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1) {
		if (c == 'b')
			sum += before_event(1);
		else if (c == 'a')
			sum += after_event(2);
	}
	return sum == 0;
}
