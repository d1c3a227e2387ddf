/*
 * The store's bytes. All numbers little-endian; "varint" as protocol buffers write it.
 *
 * Header, 64 bytes:
 *   u64 magic, u32 version, u32 header size, u64 file size, u64 place of the section table, u32 sections, u32 zero,
 * zeros Section table entry, 32 bytes: u32 type, u32 record size (0: no records), u64 offset, u64 size, u64 zero
 *
 * META       pairs of NUL-terminated strings: key, value
 * STRINGS    NUL-terminated strings; others name them by their offset here
 * FUNCTIONS  u32 name, u32 image, u64 address, u32 kind (enum region_kind), u32 zero
 * TOTALS     one a function: u64 calls, total ns, self ns, total instructions, self instructions, longest ns, when that
 *            one was entered, shortest ns; u32 its thread (of THREADS), u32 zero. Shortest, and TIMES, are of whole calls.
 * TIMES      varints, for each function: classes (lib/store/histogram.h) with calls in them, and for each of them how
 *            much it is above the one before (the first: above 0), and the calls
 * THREADS    u32 tid, u32 name, u64 first, last, events, slices, gaps, instructions, unexplained, bound,
 *            u32 deepest, u32 zero, u64 first block, blocks, first segment, segments
 * BLOCKS     by thread, then in order: u64 offset, u32 size, u32 events, u64 first time, last time, slices, bound,
 *            segments (begun before this block), u32 roots (seen before it in its segment), u32 bytes of the list
 *            behind the block: varints, the functions that are left in it, each as what it is above the one before (the
 *            first: above 0); 0 bytes: not told
 * SEGMENTS   by thread, then in order: u64 time, instructions, first root, u32 roots, u32 zero
 * ROOTS      u32 function: the frames that a segment began with, innermost first
 *
 * Block: varints. Instructions of the thread before the block; depth, and as many frames, outermost first: function <<
 * 3 | call kind; block's first time - time it was entered; the block's instructions - those when it was entered. A
 * frame that stands in ROOTS and was not yet returned to is not among them. Then events: delta of time << 3 | code;
 * delta of instructions; and what the code has with it.
 */
#ifndef CSIGHT_STORE_FORMAT_H
#define CSIGHT_STORE_FORMAT_H

#include <stdint.h>

#define STORE_MAGIC 0x3145524f54535343ull /* "CSSTORE1" */

enum { STORE_VERSION = 1, STORE_HEADER_SIZE = 64, STORE_SECTION_SIZE = 32 };

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
	SECTION_TYPES,
};

enum {
	FUNCTION_SIZE = 24,
	TOTALS_SIZE = 72,
	TOTALS_SIZE_LEAST = 48, /* of the first stores */
	THREAD_SIZE = 112,
	BLOCK_SIZE = 64,
	SEGMENT_SIZE = 32,
	ROOT_SIZE = 4,
};

enum store_code {
	CODE_CALL,   /* function: entered by a plain call */
	CODE_RETURN, /* left by a return */
	CODE_ENTER,  /* function << 3 | call kind */
	CODE_LEAVE,  /* leave kind */
	CODE_SEGMENT,
	CODE_ROOT, /* function */
	CODE_GAP,  /* gap kind */
};

enum { CODE_BITS = 3, KIND_BITS = 3 };

/* lib/calls keeps fewer; a reader takes no more. */
enum { STORE_DEPTH_MAX = 1 << 17 };

#endif
