/* SPDX-License-Identifier: MIT */
#include <sys/random.h>

#include "lib/base/hex.h"

static const char digits[] = "0123456789abcdef";

size_t hex_decode(const char *text, size_t size, uint8_t *ret, size_t capacity)
{
	size_t n = 0;

	for (; n < capacity && n < size / 2; n++) {
		int high = hex_digit(text[2 * n]), low = hex_digit(text[2 * n + 1]);

		if (high < 0 || low < 0)
			break;
		ret[n] = (uint8_t)(high << 4 | low);
	}
	return n;
}

void hex_encode(const uint8_t *bytes, size_t size, char *ret)
{
	for (size_t i = 0; i < size; i++) {
		ret[2 * i] = digits[bytes[i] >> 4];
		ret[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret[2 * size] = 0;
}

void hex_append(struct buf *b, const uint8_t *bytes, size_t size)
{
	/* hex_encode() writes a NUL, which does not become part of the buffer. */
	char *to = (char *)buf_reserve(b, 2 * size + 1);

	if (!to)
		return;
	hex_encode(bytes, size, to);
	buf_grew(b, 2 * size);
}

void hex_random(char *ret, size_t size)
{
	for (size_t i = 0; i + 1 < size; i++) {
		uint8_t byte = 0;

		while (getrandom(&byte, 1, 0) != 1)
			;
		ret[i] = digits[byte & 15];
	}
	if (size)
		ret[size - 1] = 0;
}
