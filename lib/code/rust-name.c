/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/code/rust-name.h"

void rust_print_bytes(struct rust_name *r, const char *text, size_t size)
{
	if (!r->quiet && !r->broken)
		buf_add(&r->out, text, size);
}

void rust_print(struct rust_name *r, const char *text)
{
	rust_print_bytes(r, text, strlen(text));
}

void rust_put_unicode(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_u8(b, (uint8_t)c);
		return;
	}
	if (c >= 0x10000) {
		buf_u8(b, (uint8_t)(0xf0 | c >> 18));
		buf_u8(b, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
	} else if (c >= 0x800) {
		buf_u8(b, (uint8_t)(0xe0 | c >> 12));
	}
	buf_u8(b, (uint8_t)(c >= 0x800 ? 0x80 | (c >> 6 & 0x3f) : 0xc0 | c >> 6));
	buf_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
}

bool rust_is_printable(uint64_t c)
{
	return c >= 0x20 && c < 0x110000 && c != 0x7f && (c < 0x80 || c >= 0xa0) && (c < 0xd800 || c >= 0xe000);
}

char rust_next(struct rust_name *r)
{
	if (r->at < r->end)
		return *r->at++;
	r->broken = true;
	return 0;
}

bool rust_accept(struct rust_name *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

static uint64_t parse_decimal(struct rust_name *r)
{
	uint64_t n = 0;

	if (r->at == r->end || !rust_is_digit(*r->at))
		r->broken = true;
	else if (rust_accept(r, '0'))
		return 0;
	while (r->at < r->end && rust_is_digit(*r->at) && n < UINT32_MAX)
		n = n * 10 + (uint64_t)(*r->at++ - '0');
	return n;
}

struct rust_identifier rust_parse_identifier(struct rust_name *r, bool v0)
{
	struct rust_identifier i = { .punycode = v0 && rust_accept(r, 'u') };

	i.size = (size_t)parse_decimal(r);
	if (v0)
		rust_accept(r, '_');
	if (i.size > (size_t)(r->end - r->at))
		r->broken = true;
	if (r->broken)
		return (struct rust_identifier){ .at = r->at };
	i.at = r->at;
	r->at += i.size;
	return i;
}

char *rust_finish(struct rust_name *r)
{
	char *ret = NULL;

	buf_u8(&r->out, 0);
	/* A result over the limit is truncated, and counts as well-formed. */
	if (buf_error(&r->out) == -EFBIG && r->out.size) {
		r->out.data[r->out.size - 1] = 0;
		r->out.error = 0;
		r->broken = false;
	}
	if (!r->broken && !buf_error(&r->out) && r->out.data[0])
		ret = (char *)TAKE_PTR(r->out.data);
	buf_done(&r->out);
	return ret;
}
