/* SPDX-License-Identifier: MIT */
/*
 * The truth log of the emulated ETM (lib/emu/truth.h): one file per thread, which holds the executed instructions in
 * order, as runs of consecutive instructions of 16 bytes each, little-endian.
 */
#ifndef CSIGHT_TESTS_TRUTH_H
#define CSIGHT_TESTS_TRUTH_H

#include <stdint.h>

struct truth_run {
	uint64_t start;
	uint64_t count;
};

#endif
