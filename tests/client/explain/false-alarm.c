/* SPDX-License-Identifier: MIT */
/* Requests have sizes at random: one is the largest, and none differs from the others. */
#include "planted.h"

static uint32_t state = 7;

static apart uint32_t parse(uint32_t n, unsigned size)
{
	return compute(n, size / 2);
}

static apart uint32_t store(uint32_t n, unsigned size)
{
	return compute(n, size);
}

static apart uint32_t handle(uint32_t n, unsigned size)
{
	return parse(n, size) + store(n, size);
}

int main(void)
{
	planted("handle", "none");
	for (uint32_t i = 0; i < 300; i++) {
		state = state * 1664525 + 1013904223;
		used(handle(i, 100 + (state >> 16) % 400));
	}
	return 0;
}
