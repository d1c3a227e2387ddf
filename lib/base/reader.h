/* SPDX-License-Identifier: MIT */
/*
 * A bounded reader of untrusted bytes. Each rd_*() function either consumes a whole item and returns 0, or returns
 * -EBADMSG with its output and the position unchanged. The reader owns no memory.
 */
#ifndef CSIGHT_READER_H
#define CSIGHT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
	const uint8_t *at;
	const uint8_t *end;
};

struct reader reader_of(const void *data, size_t size);

static inline size_t rd_left(const struct reader *r)
{
	return (size_t)(r->end - r->at);
}

/* Little-endian numbers. */
int rd_u8(struct reader *r, uint8_t *ret);
int rd_u16(struct reader *r, uint16_t *ret);
int rd_u32(struct reader *r, uint32_t *ret);
int rd_u64(struct reader *r, uint64_t *ret);

/* Reads unsigned LEB128 as protocol buffers write it: at most ten bytes, and 64 bits. */
int rd_long_varint(struct reader *r, uint64_t *ret);

/* Reads the same as rd_long_varint(), inline for numbers of up to two bytes, which are the most frequent. */
static inline int rd_varint(struct reader *r, uint64_t *ret)
{
	if (rd_left(r) < 2 || (r->at[0] & r->at[1] & 0x80))
		return rd_long_varint(r, ret);
	*ret = r->at[0] & 0x80 ? (uint64_t)(r->at[0] & 0x7f) | (uint64_t)r->at[1] << 7 : r->at[0];
	r->at += 1 + (r->at[0] >> 7);
	return 0;
}

/*
 * LEB128 of any length, as DWARF has it: a compiler may pad a number with empty groups, and bits above the 64th are
 * dropped. *ret of a signed number is its two's complement.
 */
int rd_leb(struct reader *r, bool is_signed, uint64_t *ret);

/* Returns a pointer to the next size bytes, without a copy. */
int rd_bytes(struct reader *r, size_t size, const uint8_t **ret);

/* Returns a reader of the next size bytes. */
int rd_sub(struct reader *r, size_t size, struct reader *ret);

int rd_skip(struct reader *r, size_t size);

/* Reads a string whose NUL lies within the remaining bytes; consumes the NUL. */
int rd_str(struct reader *r, const char **ret);

/* Copies size bytes to ret, for structures of fixed layout. */
int rd_copy(struct reader *r, void *ret, size_t size);

#endif
