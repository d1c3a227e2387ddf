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

/* A fixed amount of work, and 5 % more in a program built with -DSLOWER: what csight diff has to find. */
#ifdef SLOWER
enum { PLANTED_WORK = 210 };
#else
enum { PLANTED_WORK = 200 };
#endif

__attribute__((unused)) static apart uint32_t planted_work(uint32_t v)
{
	for (int i = 0; i < PLANTED_WORK; i++)
		v = v * 1664525 + 1013904223;
	return v;
}

#endif
