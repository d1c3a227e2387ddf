/*
 * The truth log of the emulated ETM, one file a thread: what its per-instruction callback saw, as runs of consecutive
 * instructions, 16 bytes each, little-endian. It holds the instructions that executed, in order.
 */
#ifndef CSIGHT_TESTS_TRUTH_H
#define CSIGHT_TESTS_TRUTH_H

#include <stdint.h>

struct truth_run {
	uint64_t start;
	uint64_t count;
};

#endif
