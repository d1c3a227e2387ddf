/*
 * code/bytes in a snapshot: code that no file gives back (JIT, deleted or changed files, trampolines), each piece with
 * the time from which it holds. Pieces stand in the order of their times; a later one covers an earlier one.
 */
#ifndef CSIGHT_CODE_CAPTURED_CODE_H
#define CSIGHT_CODE_CAPTURED_CODE_H

#include <stdint.h>

#define CAPTURED_CODE_MAGIC 0x003145444f435343ull /* "CSCODE1" */

struct captured_code_header {
	uint64_t magic;
	uint64_t reserved;
};

/* Little-endian; len bytes follow, padded with zeros to 8. */
struct captured_code_piece {
	uint64_t time_ns; /* CLOCK_MONOTONIC, the clock of the trace's timestamps */
	uint64_t addr, len;
};

#endif
