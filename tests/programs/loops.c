/* SPDX-License-Identifier: MIT */
/* Loops within loops: long runs of taken branches, few of them indirect. */
#include "program.h"

static apart uint64_t inner(uint64_t n, uint64_t seed)
{
	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < (i & 7); j++)
			seed = seed * 6364136223846793005u + j;
	return seed;
}

int main(int argc, char **argv)
{
	uint64_t v = 1;

	for (unsigned long left = size_of(argc, argv, 20000); left; left -= left < 1000 ? left : 1000)
		v = inner(left < 1000 ? left : 1000, v);
	return result(v);
}
