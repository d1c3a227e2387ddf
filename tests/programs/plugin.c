/* SPDX-License-Identifier: MIT */
/* The libraries that plugins.c loads, built with TURN 1 and 2: the same layout with different code. */
#include <stdint.h>

uint64_t turn(uint64_t v);

uint64_t turn(uint64_t v)
{
	for (int i = 0; i < 400; i++) {
#if TURN == 1
		v = v % 3 ? v * 5 + 1 : v >> 1;
#else
		v = v & 4 ? v ^ (uint64_t)i : v * 9 + 7;
#endif
	}
	return v;
}
