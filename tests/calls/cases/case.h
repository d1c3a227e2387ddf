/* SPDX-License-Identifier: MIT */
/* What the programs share: functions that are never inlined, and values unknown to the compiler. */
#include <stdio.h>
#include <stdlib.h>

#define apart __attribute__((noinline, noclone))

static inline unsigned used(unsigned v)
{
	__asm__ volatile("" : "+r"(v) : : "memory");
	return v;
}

static inline int done(unsigned v)
{
	printf("%u\n", v);
	return 0;
}
