/* SPDX-License-Identifier: MIT */
/* Shared by the traced programs: the size argument, functions that are not inlined, use of the result. */
#ifndef CSIGHT_TESTS_PROGRAM_H
#define CSIGHT_TESTS_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define apart __attribute__((noinline, noclone))

static inline unsigned long size_of(int argc, char **argv, unsigned long otherwise)
{
	return argc > 1 ? strtoul(argv[1], NULL, 0) : otherwise;
}

static inline int result(uint64_t value)
{
	printf("%llx\n", (unsigned long long)value);
	return 0;
}

static inline uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

#endif
