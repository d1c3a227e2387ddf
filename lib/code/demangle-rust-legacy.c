/* SPDX-License-Identifier: MIT */
/* Demangles legacy Rust names: C++ names whose last identifier is a hash. */
#include <string.h>

#include "lib/base/hex.h"
#include "lib/code/rust-name.h"

enum { HASH_DIGITS = 16 };

/* Prints one escape of a legacy name, such as $LT$ or $u7e$. false: *at is none. */
static bool print_escape(struct rust_name *r, const char **at, const char *end)
{
	static const struct {
		const char *code, *text;
	} codes[] = { { "$SP$", "@" }, { "$BP$", "*" }, { "$RF$", "&" }, { "$LT$", "<" },
		      { "$GT$", ">" }, { "$LP$", "(" }, { "$RP$", ")" }, { "$C$", "," } };
	uint32_t c = 0;
	const char *p;

	for (size_t i = 0; i < ELEMENTS(codes); i++) {
		size_t size = strlen(codes[i].code);

		if ((size_t)(end - *at) >= size && memcmp(*at, codes[i].code, size) == 0) {
			rust_print(r, codes[i].text);
			*at += size;
			return true;
		}
	}
	if (end - *at < 4 || (*at)[1] != 'u')
		return false;
	for (p = *at + 2; p < end && hex_digit(*p) >= 0 && c < 0x110000; p++)
		c = c << 4 | (uint32_t)hex_digit(*p);
	if (p == end || *p != '$' || !rust_is_printable(c))
		return false;
	rust_put_unicode(&r->out, c);
	*at = p + 1;
	return true;
}

/* Prints an identifier of a legacy name without its escapes; ".." is "::". */
static void print_legacy(struct rust_name *r, const struct rust_identifier *i)
{
	const char *at = i->at, *end = i->at + i->size;

	if (i->size >= 2 && at[0] == '_' && at[1] == '$')
		at++;
	while (at < end) {
		if (*at == '$' && print_escape(r, &at, end))
			continue;
		if (end - at >= 2 && at[0] == '.' && at[1] == '.') {
			rust_print(r, "::");
			at += 2;
			continue;
		}
		rust_print_bytes(r, at++, 1);
	}
}

static bool is_hash(const struct rust_identifier *i)
{
	if (i->size != 1 + HASH_DIGITS || i->at[0] != 'h')
		return false;
	for (size_t k = 1; k < i->size; k++)
		if (hex_digit(i->at[k]) < 0)
			return false;
	return true;
}

char *demangle_rust_legacy(const char *name)
{
	struct rust_name r = { .at = name, .end = name + strlen(name), .out.limit = RUST_NAME_MAX };
	struct rust_identifier i, last = { 0 };
	bool first = true;

	while (!r.broken && !rust_accept(&r, 'E')) {
		i = rust_parse_identifier(&r, false);
		if (last.size) {
			if (!first)
				rust_print(&r, "::");
			print_legacy(&r, &last);
			first = false;
		}
		last = i;
	}
	/* A name without a hash is one of C++. */
	if (!is_hash(&last) || (r.at < r.end && *r.at != '.'))
		r.broken = true;
	return rust_finish(&r);
}
