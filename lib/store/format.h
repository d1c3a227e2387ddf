/* SPDX-License-Identifier: MIT */
/* Constants of the store format. csight-formats(5) is its description. */
#ifndef CSIGHT_STORE_FORMAT_H
#define CSIGHT_STORE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_MAGIC 0x3145524f54535343ull /* "CSSTORE1" */
#define CHUNK_MAGIC 0x4b4e4843u           /* "CHNK" */

/* Writers write the newest version; readers also read those from STORE_OLDEST on. */
enum { STORE_VERSION = 6, STORE_OLDEST = 5 };

enum { STORE_HEADER_SIZE = 64, STORE_SECTION_SIZE = 32, CHUNK_HEAD_SIZE = 48 };

enum store_chunk_type { CHUNK_DESCRIPTION = 1, CHUNK_NAMES, CHUNK_BLOCK };

enum store_section_type {
	SECTION_META = 1,
	SECTION_STRINGS,
	SECTION_FUNCTIONS,
	SECTION_TOTALS,
	SECTION_THREADS,
	SECTION_BLOCKS,
	SECTION_SEGMENTS,
	SECTION_ROOTS,
	SECTION_TIMES,
	SECTION_GAPS,
	SECTION_SITES,
	SECTION_NOTES, /* only in a store that has notes */
	SECTION_TYPES,
};

enum {
	FUNCTION_SIZE = 40,
	TOTALS_SIZE = 80,
	THREAD_SIZE = 112,
	BLOCK_SIZE = 72,
	SEGMENT_SIZE = 48,
	SEGMENT_SIZE_LEAST = 40, /* without flags */
	ROOT_SIZE = 4,
	GAP_SIZE = 24,
	SITE_SIZE = 16,
	NOTE_SIZE = 40,
};

enum store_code {
	CODE_CALL,   /* function: entered by a plain call */
	CODE_RETURN, /* left by a return */
	CODE_ENTER,  /* packed frame: entered in another way */
	CODE_LEAVE,  /* leave kind: left in another way */
	CODE_SEGMENT,
	CODE_ROOT, /* function << 1, or site << 1 | 1 */
	CODE_NOTE, /* gap kind << 1, or mark kind << 1 | 1 */
	/*
	 * functions that return << MOVE_SHIFT | MOVE_RESUMED if those entered are resumed | inlined functions then
	 * entered; the sites of those, outermost first
	 */
	CODE_MOVE,
};

enum { MOVE_BITS = 3, MOVE_MAX = (1 << MOVE_BITS) - 1, MOVE_RESUMED = 1 << MOVE_BITS, MOVE_SHIFT = MOVE_BITS + 1 };

/* Flags of TOTALS. */
enum { TOTALS_CALLS_UNCERTAIN = 1 };

/*
 * A packed frame is number << FRAME_BITS | kind of call; the number is a site's where FRAME_INLINED is set, and the
 * kind 0 where the frame is only inlined.
 */
enum { CODE_BITS = 3, KIND_BITS = 4, FRAME_BITS = 5, FRAME_INLINED = 1 << KIND_BITS };

/* Where versions that can be read differ from the constants above. */
struct store_layout {
	uint32_t totals_size, segment_size;
	unsigned kind_bits, move_shift;
	bool waits;   /* the time in which the thread did not run is recorded */
	bool nested;  /* a tail call is nested in the frame that made it; else it replaces that frame */
	bool resumed; /* pieces of inlined functions are marked as such; else each is a call */
};

/* Flags of a segment. */
enum { SEGMENT_IS_AGAIN = 1 };

/* Returns NULL for a version that cannot be read. */
const struct store_layout *store_layout(uint32_t version);

/* Returns the number in a packed frame, of a function or, if *ret_inlined, of a site; *ret_kind: enum call_kind. */
static inline uint64_t store_unpack(const struct store_layout *l, uint64_t packed, bool *ret_inlined, uint8_t *ret_kind)
{
	*ret_inlined = packed >> l->kind_bits & 1;
	*ret_kind = packed & ((1u << l->kind_bits) - 1);
	return packed >> (l->kind_bits + 1);
}

#define ROOT_INLINED (1u << 31)

/* Limit of readers; lib/calls keeps fewer frames. */
enum { STORE_DEPTH_MAX = 1 << 17 };

/* What the header has beside the magic and its own size. table 0: the store is unfinished. */
struct store_header {
	uint32_t version;
	uint64_t size, table;
	uint32_t sections, checksum;
};

int store_write_header(int fd, const struct store_header *h);

/* Continues a checksum; sum is that of the bytes before, 0 at the beginning. */
uint32_t store_checksum_more(uint32_t sum, const void *data, size_t size);

static inline uint32_t store_checksum(const void *data, size_t size)
{
	return store_checksum_more(0, data, size);
}

#endif
