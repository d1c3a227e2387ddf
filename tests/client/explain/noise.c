/* SPDX-License-Identifier: MIT */
/* Requests differ at random, and one also builds an index anew. */
#include "planted.h"

static uint32_t state = 3;

static apart uint32_t parse(uint32_t n, unsigned size)
{
	return compute(n, size);
}

static apart uint32_t validate(uint32_t n, unsigned size)
{
	return compute(n, size);
}

static apart uint32_t build_index(uint32_t n)
{
	return compute(n, 4000);
}

static apart uint32_t handle(uint32_t n)
{
	uint32_t sum;

	state = state * 1664525 + 1013904223;
	sum = parse(n, 100 + (state >> 16) % 400) + validate(n, 100 + (state >> 20) % 500);
	return n == 77 ? sum + build_index(n) : sum;
}

int main(void)
{
	planted("handle", "build_index");
	for (uint32_t i = 0; i < 200; i++)
		used(handle(i));
	return 0;
}
