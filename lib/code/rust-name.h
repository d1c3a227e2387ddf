/* SPDX-License-Identifier: MIT */
/* Internal to demangle-rust*.c: a Rust name while it is parsed, and its readable form. */
#ifndef CSIGHT_CODE_RUST_NAME_H
#define CSIGHT_CODE_RUST_NAME_H

#include <stdint.h>

#include "lib/base/buf.h"

enum { RUST_NAME_MAX = 2048 }; /* limit of out; a longer result is truncated */

struct rust_name {
	const char *begin, *at, *end; /* at: next character to parse */
	struct buf out;
	bool broken; /* malformed: nothing more is parsed or printed */
	bool quiet;  /* nothing is printed */
	unsigned depth, steps;
	uint64_t lifetimes; /* bound by the enclosing binders */
};

struct rust_identifier {
	const char *at;
	size_t size;
	uint64_t number; /* disambiguator: distinguishes identifiers of the same name */
	bool punycode;
};

static inline bool rust_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns the next character; at the end of the name, 0, and the name is broken. */
char rust_next(struct rust_name *r);

/* Parses c if it is the next character. */
bool rust_accept(struct rust_name *r, char c);

/* Parses a length and as many bytes. v0: with the prefix of Punycode and the optional delimiter of v0 names. */
struct rust_identifier rust_parse_identifier(struct rust_name *r, bool v0);

void rust_print_bytes(struct rust_name *r, const char *text, size_t size);
void rust_print(struct rust_name *r, const char *text);

/* Returns whether c is a Unicode scalar value, and no control character. */
bool rust_is_printable(uint64_t c);

/* Appends a character as UTF-8. */
void rust_put_unicode(struct buf *b, uint32_t c);

/* Returns the readable form, which the caller frees, and releases r->out. NULL: the name is broken, or no memory. */
char *rust_finish(struct rust_name *r);

/* Demangles a legacy name, without its prefix _ZN. */
char *demangle_rust_legacy(const char *name);

#endif
