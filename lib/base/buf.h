/* SPDX-License-Identifier: MIT */
/*
 * A growable byte buffer with an optional size limit. The first failure (no memory, limit reached) sticks: later
 * appends do nothing and buf_error() returns it, so that a writer checks once at its end.
 */
#ifndef CSIGHT_BUF_H
#define CSIGHT_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"

struct buf {
	uint8_t *data;
	size_t size;
	size_t capacity;
	size_t limit; /* 0: none */
	int error;
};

void buf_done(struct buf *b);
#define _cleanup_buf_ _cleanup_(buf_done)

void buf_add(struct buf *b, const void *data, size_t size);
void buf_u8(struct buf *b, uint8_t v);
void buf_u16(struct buf *b, uint16_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_varint(struct buf *b, uint64_t v);
void buf_zero(struct buf *b, size_t size);
void buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3);

/* Encodes v at to, which has space for VARINT_MAX bytes; returns the end of the encoded number. */
enum { VARINT_MAX = 10 };

static inline uint8_t *buf_put_varint(uint8_t *to, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*to++ = (uint8_t)(v | 0x80);
	*to++ = (uint8_t)v;
	return to;
}

/* Returns space for size more bytes, or NULL once the buffer has failed. buf_grew() adds the bytes written there. */
uint8_t *buf_reserve(struct buf *b, size_t size);

static inline void buf_grew(struct buf *b, size_t size)
{
	b->size += size;
}

/* 0, -ENOMEM, or -EFBIG if the limit was reached. */
static inline int buf_error(const struct buf *b)
{
	return b->error;
}

static inline void buf_clear(struct buf *b)
{
	b->size = 0;
	b->error = 0;
}

#endif
