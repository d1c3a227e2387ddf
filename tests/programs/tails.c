/* SPDX-License-Identifier: MIT */
/*
 * Tail calls: requests that end in a jump to the function that does the work, of which one takes long; and a state
 * machine whose states jump to one another.
 */
#include "program.h"

enum { REQUESTS = 1000, SLOW = 421, SLOW_ROUNDS = 200000, STEPS = 500 };

typedef uint32_t state(const unsigned char *at, uint32_t v);

static apart uint32_t prepare(uint32_t id)
{
	uint32_t v = id + 1;

	for (uint32_t i = 0; i < 8 + id % 5; i++)
		next_random(&v);
	return v;
}

static apart uint32_t work(uint32_t id, uint32_t v)
{
	for (uint32_t i = 0; i < (id == SLOW ? SLOW_ROUNDS : 10 + id % 7); i++)
		next_random(&v);
	return v;
}

static apart uint32_t request(uint32_t id)
{
	return work(id, prepare(id));
}

static state reading, writing, stopping;
static state *const states[] = { reading, writing, stopping };

static apart uint32_t reading(const unsigned char *at, uint32_t v)
{
	return states[*at](at + 1, v + 3);
}

static apart uint32_t writing(const unsigned char *at, uint32_t v)
{
	return states[*at](at + 1, v ^ 5);
}

static apart uint32_t stopping(const unsigned char *at, uint32_t v)
{
	return v + *at;
}

static apart uint32_t machine(uint32_t seed)
{
	unsigned char steps[STEPS + 2];

	for (int i = 0; i < STEPS; i++)
		steps[i] = next_random(&seed) & 1;
	steps[STEPS] = 2;
	steps[STEPS + 1] = 7;
	return reading(steps, seed) + 1;
}

int main(void)
{
	uint32_t sum = 0;

	for (uint32_t id = 0; id < REQUESTS; id++)
		sum += request(id);
	return result(sum + machine(3));
}
