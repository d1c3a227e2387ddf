/* SPDX-License-Identifier: MIT */
/* Bytes as text in lower-case hexadecimal digits. */
#ifndef CSIGHT_HEX_H
#define CSIGHT_HEX_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"

/* Returns the value of a lower-case hexadecimal digit; -1 for any other character. */
static inline int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes the pairs of digits that text, of size characters, begins with; returns their number, at most capacity. */
size_t hex_decode(const char *text, size_t size, uint8_t *ret, size_t capacity);

/* Writes two digits per byte and a NUL: 2 * size + 1 characters. */
void hex_encode(const uint8_t *bytes, size_t size, char *ret);
void hex_append(struct buf *b, const uint8_t *bytes, size_t size);

/* Writes size - 1 random digits and a NUL. */
void hex_random(char *ret, size_t size);

#endif
