/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/escape.h"

size_t escape_utf8(const unsigned char *s, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *s < 0x80 ? 1 : (*s & 0xe0) == 0xc0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : (*s & 0xf8) == 0xf0 ? 4 : 0;
	uint32_t c;

	if (n == 0)
		return 0;
	c = n == 1 ? *s : *s & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

bool escape_is_printable(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	/* Line and paragraph separators, and the marks that change the direction of text. */
	if ((c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
		return false;
	return c != 0xfeff && c != 0x061c;
}

char *escape_text(const char *text, char *ret, size_t size)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t out = 0;

	if (size == 0)
		return ret;
	while (*s) {
		uint32_t c = 0;
		size_t n = escape_utf8(s, &c);

		if (n && escape_is_printable(c)) {
			if (out + n >= size)
				break;
			memcpy(ret + out, s, n);
			out += n;
			s += n;
		} else {
			if (out + 4 >= size)
				break;
			snprintf(ret + out, 5, "\\x%02x", *s++);
			out += 4;
		}
	}
	ret[out] = 0;
	return ret;
}

const char *esc(const char *text)
{
	static __thread char store[8][1024];
	static __thread unsigned turn;

	return escape_text(text ? text : "(none)", store[turn++ % 8], sizeof(store[0]));
}
