/*
 * The store's bytes. All numbers little-endian; "varint" as protocol buffers write it.
 *
 * Header, 64 bytes: u64 magic, u32 version, u32 header size, u64 file size, u64 place of the section table, u32
 * sections,
 * u32 checksum of the section table, zeros, and at its end u32 checksum of all before. Size and place are 0 until the
 * store is finished.
 *
 * Then chunks, one behind another, as they were written; each has what is to be known of it by itself, so that a file
 * that was cut is whole up to the cut. Head, 48 bytes: u32 magic, u32 type, u32 size, u32 size of the list behind, u32
 * checksum of the size bytes, u32 of the list, u32 thread, u32 zero, u64 first time, u32 zero, u32 checksum of all
 * before.
 *
 * DESCRIPTION  what META has
 * NAMES        varints, and strings with a NUL, of what is new in the blocks to come: threads; for each its tid and
 *              name;
 *              functions, for each its address, kind, line, offset in the image, name, image, source file and the
 *              image's build-id; sites, for each its function, line and source file
 * BLOCK        events of a thread, and the list of functions; as BLOCKS tells
 *
 * Then the sections. Section table entry, 32 bytes: u32 type, u32 record size (0: no records), u64 offset, u64 size,
 * u32
 * checksum, u32 zero. Checksums are zlib's crc32.
 *
 * META       pairs of NUL-terminated strings: key, value
 * STRINGS    NUL-terminated strings; others name them by their offset here
 * FUNCTIONS  u32 name, u32 image, u64 address, u32 kind (enum region_kind), u32 line, u32 source file ("": not
 *            known), u32 the image's build-id in hexadecimal (the same), u64 where it begins in the image
 * SITES      places where an inlined function is called: u32 function, u32 source file, u32 line, u32 zero
 * TOTALS     one a function: u64 calls, total ns, self ns, total instructions, self instructions, longest ns, when that
 *            one was entered, shortest ns; u32 its thread (of THREADS), u32 zero. Shortest, and TIMES, are of whole
 *            calls.
 * TIMES      varints, for each function: classes (lib/store/histogram.h) with calls in them, and for each of them how
 *            much it is above the one before (the first: above 0), and the calls
 * THREADS    u32 tid, u32 name, u64 first, last, events, slices, gaps, instructions, unexplained, bound,
 *            u32 deepest, u32 zero, u64 first block, blocks, first segment, segments
 * BLOCKS     by thread, then in order: u64 offset, u32 size, u32 events, u64 first time, last time, slices, bound,
 *            segments (begun before this block), u32 roots (seen before it in its segment), u32 bytes of the list
 *            behind the block: varints, the functions that are left in it, each as what it is above the one before (the
 *            first: above 0); u32 checksum of the block, u32 of the list
 * GAPS       of each thread and kind of which there is any: u32 thread, u32 kind, u64 gaps, u64 ns that they last
 * SEGMENTS   by thread, then in order: u64 time, instructions, first root, u32 roots, u32 zero
 * ROOTS      u32 function, or site + 2^31: the frames that a segment began with, innermost first
 *
 * Block: varints. Instructions of the thread before the block; depth, and as many frames, outermost first: function <<
 * 4 | call kind, or site << 4 | 8 | call kind; block's first time - time it was entered; the block's instructions -
 * those when it was entered. A
 * frame that stands in ROOTS and was not yet returned to is not among them. Then events: delta of time << 3 | code;
 * delta of instructions; and what the code has with it. A move counts as so many events as it leaves and enters
 * functions.
 */
#ifndef CSIGHT_STORE_FORMAT_H
#define CSIGHT_STORE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define STORE_MAGIC 0x3145524f54535343ull /* "CSSTORE1" */
#define CHUNK_MAGIC 0x4b4e4843u           /* "CHNK" */

enum { STORE_VERSION = 5, STORE_HEADER_SIZE = 64, STORE_SECTION_SIZE = 32, CHUNK_HEAD_SIZE = 48 };

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
	SECTION_TYPES,
};

enum {
	FUNCTION_SIZE = 40,
	TOTALS_SIZE = 72,
	THREAD_SIZE = 112,
	BLOCK_SIZE = 72,
	SEGMENT_SIZE = 32,
	ROOT_SIZE = 4,
	GAP_SIZE = 24,
	SITE_SIZE = 16,
};

enum store_code {
	CODE_CALL,   /* function: entered by a plain call */
	CODE_RETURN, /* left by a return */
	CODE_ENTER,  /* as a block has a frame */
	CODE_LEAVE,  /* leave kind */
	CODE_SEGMENT,
	CODE_ROOT, /* function << 1, or site << 1 | 1 */
	CODE_NOTE, /* gap kind << 1, or mark kind << 1 | 1 */
	CODE_MOVE, /* functions left by a return << MOVE_BITS | inlined ones then entered, and so many sites, from
		      outside in */
};

enum { MOVE_BITS = 3, MOVE_MAX = (1 << MOVE_BITS) - 1 };

/* Of a frame: the kind of the call, plain where it is inlined and nothing else; whether it is a site; and the number.
 */
enum { CODE_BITS = 3, KIND_BITS = 3, FRAME_BITS = 4, FRAME_INLINED = 1 << KIND_BITS };

#define ROOT_INLINED (1u << 31)

/* lib/calls keeps fewer; a reader takes no more. */
enum { STORE_DEPTH_MAX = 1 << 17 };

/* Writes the header; table 0: the store is not finished. */
int store_write_header(int fd, uint64_t size, uint64_t table, uint32_t sections, uint32_t checksum);

/* What came before, 0 at the beginning, with more behind it. */
uint32_t store_checksum_more(uint32_t sum, const void *data, size_t size);

static inline uint32_t store_checksum(const void *data, size_t size)
{
	return store_checksum_more(0, data, size);
}

#endif
