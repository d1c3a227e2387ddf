/* SPDX-License-Identifier: MIT */
/* What the programs of this folder share. */
#ifndef CSIGHT_TESTS_PLANTED_H
#define CSIGHT_TESTS_PLANTED_H

#include <stdint.h>
#include <stdio.h>

/* A function that stays a function of its own. */
#define apart __attribute__((noinline, noclone))

/* Records the function to ask about, and the one that makes its slowest call slow; "none": no call stands out. */
static inline void planted(const char *function, const char *cause)
{
	printf("function: %s\ncause: %s\n", function, cause);
	fflush(stdout);
}

/* Uses a value, so that the compiler has to compute it. A macro: an inlined function would be a call in the trace. */
#define used(value)                                              \
	__extension__({                                          \
		uint32_t used_ = (uint32_t)(value);              \
		__asm__ volatile("" : "+r"(used_) : : "memory"); \
		used_;                                           \
	})

/* Some work of the function itself, which stands for any other: about three instructions a round. */
#define compute(seed, rounds)                                      \
	__extension__({                                            \
		uint32_t computed_ = (uint32_t)(seed);             \
		for (uint32_t round_ = (rounds); round_--;)        \
			computed_ = used(computed_) * 2654435761u; \
		computed_;                                         \
	})

#endif
