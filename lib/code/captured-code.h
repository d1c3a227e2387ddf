/* SPDX-License-Identifier: MIT */
/*
 * Captured bytes: the file code/bytes of a snapshot. It holds code that no file has (JIT code, deleted or modified
 * files, trampolines) as a header and pieces. A piece is valid from its time on, until a later piece covers it. Pieces
 * are in order of time.
 */
#ifndef CSIGHT_CODE_CAPTURED_CODE_H
#define CSIGHT_CODE_CAPTURED_CODE_H

#include <stdint.h>

#define CAPTURED_CODE_MAGIC 0x003145444f435343ull /* "CSCODE1" */

struct captured_code_header {
	uint64_t magic;
	uint64_t reserved;
};

/* Little-endian. len bytes of code follow, padded with zeros to a multiple of 8. */
struct captured_code_piece {
	uint64_t time_ns; /* CLOCK_MONOTONIC, the clock of the trace's timestamps */
	uint64_t addr, len;
};

#endif
