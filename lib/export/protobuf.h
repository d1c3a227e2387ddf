/* SPDX-License-Identifier: MIT */
/* The subset of protobuf encoding that the writers need: functions append fields to a buffer. */
#ifndef CSIGHT_EXPORT_PROTOBUF_H
#define CSIGHT_EXPORT_PROTOBUF_H

#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/escape.h"

enum { /* wire types */
       WIRE_VARINT = 0,
       WIRE_BYTES = 2,
};

#define FIELD(number, wire) ((number) << 3 | (wire))

enum { PROTOBUF_TEXT_MAX = 8192 }; /* a name of 2,000 bytes, all of them escaped, and a mark */

static inline void put_number(struct buf *b, unsigned field, uint64_t value)
{
	buf_varint(b, field);
	buf_varint(b, value);
}

static inline void put_bytes(struct buf *b, unsigned field, const void *bytes, size_t size)
{
	buf_varint(b, field);
	buf_varint(b, size);
	buf_add(b, bytes, size);
}

/* Names may hold any bytes; readers require UTF-8. */
static inline void put_text(struct buf *b, unsigned field, const char *text)
{
	char clean[PROTOBUF_TEXT_MAX];

	escape_text(text, clean, sizeof(clean));
	put_bytes(b, field, clean, strlen(clean));
}

#endif
