/*
 * code/bytes in a snapshot: code that no file gives back (JIT, deleted or changed files, trampolines), each piece with
 * the time from which it holds. Pieces stand in the order of their times; a later one covers an earlier one.
 */
#ifndef CSIGHT_CODE_BLOB_H
#define CSIGHT_CODE_BLOB_H

#include <stdint.h>

#define CODE_BLOB_MAGIC 0x003145444f435343ull /* "CSCODE1" */

struct code_blob_header {
	uint64_t magic;
	uint64_t reserved;
};

/* Little-endian; len bytes follow, padded with zeros to 8. */
struct code_blob_piece {
	uint64_t time_ns; /* CLOCK_MONOTONIC, the clock of the trace's timestamps */
	uint64_t addr, len;
};

#endif
