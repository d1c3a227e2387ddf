/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "lib/base/buf.h"

void buf_done(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->size = b->capacity = 0;
}

uint8_t *buf_reserve(struct buf *b, size_t size)
{
	size_t need, capacity;
	uint8_t *data;

	if (b->error)
		return NULL;
	if (__builtin_add_overflow(b->size, size, &need) || (b->limit && need > b->limit)) {
		b->error = -EFBIG;
		return NULL;
	}
	if (b->data && need <= b->capacity)
		return b->data + b->size;
	capacity = MAX(need, b->capacity + b->capacity / 2);
	capacity = MAX(capacity, (size_t)256);
	data = realloc(b->data, capacity);
	if (!data) {
		b->error = -ENOMEM;
		return NULL;
	}
	b->data = data;
	b->capacity = capacity;
	return data + b->size;
}

void buf_add(struct buf *b, const void *data, size_t size)
{
	uint8_t *to = buf_reserve(b, size);

	if (!to || !size)
		return;
	memcpy(to, data, size);
	buf_grew(b, size);
}

void buf_u8(struct buf *b, uint8_t v)
{
	buf_add(b, &v, sizeof(v));
}

void buf_u16(struct buf *b, uint16_t v)
{
	v = htole16(v);
	buf_add(b, &v, sizeof(v));
}

void buf_u32(struct buf *b, uint32_t v)
{
	v = htole32(v);
	buf_add(b, &v, sizeof(v));
}

void buf_u64(struct buf *b, uint64_t v)
{
	v = htole64(v);
	buf_add(b, &v, sizeof(v));
}

void buf_varint(struct buf *b, uint64_t v)
{
	bool roomy = !b->error && b->capacity - b->size >= VARINT_MAX && !b->limit;
	uint8_t bytes[VARINT_MAX], *to = roomy ? b->data + b->size : bytes;
	size_t n = (size_t)(buf_put_varint(to, v) - to);

	if (roomy)
		b->size += n;
	else
		buf_add(b, bytes, n);
}

void buf_zero(struct buf *b, size_t size)
{
	uint8_t *to = buf_reserve(b, size);

	if (!to || !size)
		return;
	memset(to, 0, size);
	buf_grew(b, size);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list args;
	uint8_t *to;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	/* vsnprintf() writes a NUL, which does not become part of the buffer. */
	to = n < 0 ? NULL : buf_reserve(b, (size_t)n + 1);
	if (!to)
		return;
	va_start(args, fmt);
	vsnprintf((char *)to, (size_t)n + 1, fmt, args);
	va_end(args);
	buf_grew(b, (size_t)n);
}
