/* SPDX-License-Identifier: MIT */
/* Demangles Rust names: v0 (RFC 2603) here, legacy ones in demangle-rust-legacy.c. */
#include <string.h>

#include "lib/base/hex.h"
#include "lib/code/demangle.h"
#include "lib/code/rust-name.h"

enum { DEPTH_MAX = 200, STEPS_MAX = 20000, PUNYCODE_MAX = 256, VALUE_DIGITS = 16 };

static void print_number(struct rust_name *r, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%ju", (uintmax_t)n);
	rust_print(r, text);
}

/* Parses a base-62 number: "_" is 0, "0_" is 1. */
static uint64_t parse_base62(struct rust_name *r)
{
	uint64_t n = 0;

	if (rust_accept(r, '_'))
		return 0;
	while (!rust_accept(r, '_')) {
		char c = rust_next(r);
		int digit = rust_is_digit(c)       ? c - '0'
			    : c >= 'a' && c <= 'z' ? c - 'a' + 10
			    : c >= 'A' && c <= 'Z' ? c - 'A' + 36
						   : -1;

		if (digit < 0 || n > UINT64_MAX / 62 - 2)
			r->broken = true;
		if (r->broken)
			return 0;
		n = n * 62 + (uint64_t)digit;
	}
	return n + 1;
}

/* Parses an optional disambiguator: none is 0, "s_" is 1. */
static uint64_t parse_disambiguator(struct rust_name *r)
{
	return rust_accept(r, 's') ? parse_base62(r) + 1 : 0;
}

static struct rust_identifier parse_identifier(struct rust_name *r)
{
	uint64_t number = parse_disambiguator(r);
	struct rust_identifier i = rust_parse_identifier(r, true);

	i.number = number;
	return i;
}

/* Decodes Punycode (RFC 3492, 6.2) with "_" as the delimiter. */
static bool decode_punycode(const struct rust_identifier *i, struct buf *to)
{
	enum { BASE = 36, TMIN = 1, TMAX = 26, SKEW = 38, DAMP = 700, INITIAL_BIAS = 72, INITIAL_N = 128 };
	uint32_t points[PUNYCODE_MAX];
	size_t n_points = 0, at = 0;
	uint64_t n = INITIAL_N, index = 0, bias = INITIAL_BIAS;

	if (i->size >= PUNYCODE_MAX)
		return false;
	for (size_t k = i->size; k-- > 0;)
		if (i->at[k] == '_') {
			for (; n_points < k; n_points++)
				points[n_points] = (uint8_t)i->at[n_points];
			at = k + 1;
			break;
		}
	while (at < i->size) {
		uint64_t old = index, weight = 1, delta;

		for (uint64_t k = BASE;; k += BASE) {
			char c = at < i->size ? i->at[at++] : 0;
			int digit = rust_is_digit(c) ? c - '0' + 26 : c >= 'a' && c <= 'z' ? c - 'a' : -1;
			uint64_t t = k <= bias ? TMIN : k >= bias + TMAX ? TMAX : k - bias;

			if (digit < 0 || weight > UINT32_MAX)
				return false;
			index += (uint64_t)digit * weight;
			if ((uint64_t)digit < t)
				break;
			weight *= BASE - t;
		}
		delta = (old == 0 ? (index - old) / DAMP : (index - old) / 2);
		delta += delta / (n_points + 1);
		for (bias = 0; delta > (BASE - TMIN) * TMAX / 2; bias += BASE)
			delta /= BASE - TMIN;
		bias += (BASE - TMIN + 1) * delta / (delta + SKEW);
		n += index / (n_points + 1);
		index %= n_points + 1;
		if (!rust_is_printable(n) || n_points == PUNYCODE_MAX)
			return false;
		memmove(points + index + 1, points + index, (n_points - index) * sizeof(*points));
		points[index++] = (uint32_t)n;
		n_points++;
	}
	for (size_t k = 0; k < n_points; k++)
		rust_put_unicode(to, points[k]);
	return true;
}

static void print_identifier(struct rust_name *r, const struct rust_identifier *i)
{
	if (!i->punycode)
		rust_print_bytes(r, i->at, i->size);
	else if (!r->quiet && !r->broken && !decode_punycode(i, &r->out))
		r->broken = true;
}

/* Bounds nesting, and the work that repeated back references can cause. */
static bool begin_production(struct rust_name *r)
{
	if (++r->depth > DEPTH_MAX || ++r->steps > STEPS_MAX || buf_error(&r->out))
		r->broken = true;
	return !r->broken;
}

static void parse_type(struct rust_name *r);
static void parse_constant(struct rust_name *r);
static bool parse_path(struct rust_name *r, bool in_value, bool leave_open);

/*
 * Parses a back reference and moves the parser to what it refers to; the caller returns to *ret_here afterwards.
 * Returns false if there is nothing to parse: the reference is malformed, or nothing is printed.
 */
static bool parse_back_reference(struct rust_name *r, const char **ret_here)
{
	const char *from = r->at - 1;
	uint64_t to = parse_base62(r);

	if (to >= (uint64_t)(from - r->begin))
		r->broken = true;
	if (r->broken || r->quiet)
		return false;
	*ret_here = r->at;
	r->at = r->begin + to;
	return true;
}

/* Prints a lifetime by its De Bruijn index; 0 is the erased one. */
static void print_lifetime(struct rust_name *r, uint64_t index)
{
	char text[3] = "'_";
	uint64_t depth = r->lifetimes - index;

	if (index == 0) {
		rust_print(r, text);
		return;
	}
	if (index > r->lifetimes) {
		r->broken = true;
		return;
	}
	if (depth < 26) {
		text[1] = (char)('a' + depth);
		rust_print(r, text);
		return;
	}
	rust_print(r, "'_");
	print_number(r, depth);
}

/* Parses an optional binder of lifetimes, "G" and their number, and prints it: for<'a, 'b>. */
static uint64_t parse_binder(struct rust_name *r)
{
	uint64_t n = rust_accept(r, 'G') ? parse_base62(r) + 1 : 0;

	if (n > DEPTH_MAX)
		r->broken = true;
	if (!n || r->broken)
		return 0;
	rust_print(r, "for<");
	for (uint64_t i = 0; i < n; i++) {
		if (i)
			rust_print(r, ", ");
		r->lifetimes++;
		print_lifetime(r, 1);
	}
	rust_print(r, "> ");
	return n;
}

static void parse_generic_arguments(struct rust_name *r)
{
	for (bool first = true; !r->broken && !rust_accept(r, 'E'); first = false) {
		if (!first)
			rust_print(r, ", ");
		if (rust_accept(r, 'L'))
			print_lifetime(r, parse_base62(r));
		else if (rust_accept(r, 'K'))
			parse_constant(r);
		else
			parse_type(r);
	}
}

static void parse_nested_path(struct rust_name *r, bool in_value)
{
	char space = rust_next(r);
	struct rust_identifier i;

	parse_path(r, in_value, false);
	i = parse_identifier(r);
	if (space >= 'A' && space <= 'Z') {
		rust_print(r, "::{");
		if (space == 'C')
			rust_print(r, "closure");
		else if (space == 'S')
			rust_print(r, "shim");
		else
			rust_print_bytes(r, &space, 1);
		if (i.size)
			rust_print(r, ":");
		print_identifier(r, &i);
		rust_print(r, "#");
		print_number(r, i.number);
		rust_print(r, "}");
	} else if (space >= 'a' && space <= 'z') {
		if (i.size)
			rust_print(r, "::");
		print_identifier(r, &i);
	} else {
		r->broken = true;
	}
}

/* Prints <type> or <type as trait>. The path of the impl itself is skipped. */
static void parse_impl_path(struct rust_name *r, char kind)
{
	bool quiet = r->quiet;

	if (kind != 'Y') {
		parse_disambiguator(r);
		r->quiet = true;
		parse_path(r, false, false);
		r->quiet = quiet;
	}
	rust_print(r, "<");
	parse_type(r);
	if (kind != 'M') {
		rust_print(r, " as ");
		parse_path(r, false, false);
	}
	rust_print(r, ">");
}

/* leave_open: do not close a list of arguments at the end of the path. Returns whether it was left open. */
static bool parse_path(struct rust_name *r, bool in_value, bool leave_open)
{
	struct rust_identifier i;
	const char *here;
	bool open = false;
	char c;

	if (!begin_production(r))
		return false;
	c = rust_next(r);
	switch (c) {
	case 'C':
		i = parse_identifier(r);
		print_identifier(r, &i);
		break;
	case 'M':
	case 'X':
	case 'Y':
		parse_impl_path(r, c);
		break;
	case 'N':
		parse_nested_path(r, in_value);
		break;
	case 'I':
		parse_path(r, in_value, false);
		rust_print(r, in_value ? "::<" : "<");
		parse_generic_arguments(r);
		open = leave_open;
		if (!open)
			rust_print(r, ">");
		break;
	case 'B':
		if (parse_back_reference(r, &here)) {
			open = parse_path(r, in_value, leave_open);
			r->at = here;
		}
		break;
	default:
		r->broken = true;
	}
	r->depth--;
	return open;
}

static const char *basic_type_name(char c)
{
	static const char *const names[26] = {
		"i8",   "bool", "char", "f64", "str", "f32", NULL,  "u8", "isize", "usize", NULL,  "i32", "u32",
		"i128", "u128", "_",    NULL,  NULL,  "i16", "u16", "()", "...",   NULL,    "i64", "u64", "!",
	};

	return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static void parse_function_type(struct rust_name *r)
{
	uint64_t bound = parse_binder(r);

	if (rust_accept(r, 'U'))
		rust_print(r, "unsafe ");
	if (rust_accept(r, 'K')) {
		rust_print(r, "extern \"");
		if (rust_accept(r, 'C')) {
			rust_print(r, "C");
		} else {
			struct rust_identifier abi = rust_parse_identifier(r, true);

			for (size_t i = 0; i < abi.size; i++)
				rust_print_bytes(r, abi.at[i] == '_' ? "-" : abi.at + i, 1);
		}
		rust_print(r, "\" ");
	}
	rust_print(r, "fn(");
	for (bool first = true; !r->broken && !rust_accept(r, 'E'); first = false) {
		if (!first)
			rust_print(r, ", ");
		parse_type(r);
	}
	rust_print(r, ")");
	if (!rust_accept(r, 'u')) {
		rust_print(r, " -> ");
		parse_type(r);
	}
	r->lifetimes -= bound;
}

static void parse_dyn_type(struct rust_name *r)
{
	uint64_t bound, limit;

	rust_print(r, "dyn ");
	bound = parse_binder(r);
	for (bool first = true; !r->broken && !rust_accept(r, 'E'); first = false) {
		bool open;

		if (!first)
			rust_print(r, " + ");
		open = parse_path(r, false, true);
		while (rust_accept(r, 'p')) {
			struct rust_identifier i;

			rust_print(r, open ? ", " : "<");
			open = true;
			i = rust_parse_identifier(r, true);
			print_identifier(r, &i);
			rust_print(r, " = ");
			parse_type(r);
		}
		if (open)
			rust_print(r, ">");
	}
	r->lifetimes -= bound;
	if (!rust_accept(r, 'L'))
		r->broken = true;
	limit = parse_base62(r);
	if (limit) {
		rust_print(r, " + ");
		print_lifetime(r, limit);
	}
}

static void parse_reference_type(struct rust_name *r, bool changes)
{
	rust_print(r, "&");
	if (rust_accept(r, 'L')) {
		uint64_t index = parse_base62(r);

		if (index) {
			print_lifetime(r, index);
			rust_print(r, " ");
		}
	}
	if (changes)
		rust_print(r, "mut ");
	parse_type(r);
}

static void parse_tuple_type(struct rust_name *r)
{
	unsigned n = 0;

	rust_print(r, "(");
	for (; !r->broken && !rust_accept(r, 'E'); n++) {
		if (n)
			rust_print(r, ", ");
		parse_type(r);
	}
	rust_print(r, n == 1 ? ",)" : ")");
}

static void parse_type(struct rust_name *r)
{
	const char *here;
	char c;

	if (!begin_production(r))
		return;
	c = rust_next(r);
	switch (c) {
	case 'A':
	case 'S':
		rust_print(r, "[");
		parse_type(r);
		if (c == 'A') {
			rust_print(r, "; ");
			parse_constant(r);
		}
		rust_print(r, "]");
		break;
	case 'T':
		parse_tuple_type(r);
		break;
	case 'R':
	case 'Q':
		parse_reference_type(r, c == 'Q');
		break;
	case 'P':
	case 'O':
		rust_print(r, c == 'P' ? "*const " : "*mut ");
		parse_type(r);
		break;
	case 'F':
		parse_function_type(r);
		break;
	case 'D':
		parse_dyn_type(r);
		break;
	case 'B':
		if (parse_back_reference(r, &here)) {
			parse_type(r);
			r->at = here;
		}
		break;
	default:
		if (basic_type_name(c)) {
			rust_print(r, basic_type_name(c));
		} else if (!r->broken) {
			r->at--;
			parse_path(r, false, false);
		}
	}
	r->depth--;
}

static void print_constant(struct rust_name *r, char of, bool negative, uint64_t value)
{
	if (of == 'b' && value <= 1) {
		rust_print(r, value ? "true" : "false");
	} else if (of == 'c' && rust_is_printable(value)) {
		rust_print(r, "'");
		if (!r->quiet)
			rust_put_unicode(&r->out, (uint32_t)value);
		rust_print(r, "'");
	} else {
		rust_print(r, negative ? "-" : "");
		print_number(r, value);
	}
}

/* Parses numbers, booleans and characters. Other constants are not supported. */
static void parse_constant(struct rust_name *r)
{
	uint64_t value = 0;
	const char *here, *digits;
	bool negative;
	char of = rust_next(r);

	if (of == 'p') {
		rust_print(r, "_");
		return;
	}
	if (of == 'B') {
		if (begin_production(r) && parse_back_reference(r, &here)) {
			parse_constant(r);
			r->at = here;
		}
		r->depth--;
		return;
	}
	if (!of || !strchr("abchijlmnostxy", of))
		r->broken = true;
	negative = rust_accept(r, 'n');
	digits = r->at;
	while (!r->broken && !rust_accept(r, '_')) {
		int digit = hex_digit(rust_next(r));

		if (digit < 0)
			r->broken = true;
		value = value << 4 | (uint64_t)(digit & 15);
	}
	if (r->at - digits <= VALUE_DIGITS + 1) {
		print_constant(r, of, negative, value);
	} else {
		rust_print(r, negative ? "-0x" : "0x");
		rust_print_bytes(r, digits, (size_t)(r->at - digits) - 1);
	}
}

static char *demangle_v0(const char *name)
{
	struct rust_name r = {
		.begin = name, .at = name, .end = name + strcspn(name, ".$"), .out.limit = RUST_NAME_MAX
	};

	parse_path(&r, true, false);
	/* The instantiating crate is parsed, and not printed. */
	if (r.at < r.end) {
		r.quiet = true;
		parse_path(&r, false, false);
	}
	if (r.at < r.end)
		r.broken = true;
	return rust_finish(&r);
}

char *demangle_rust(const char *name)
{
	if (strncmp(name, "_R", 2) == 0)
		return demangle_v0(name + 2);
	return strncmp(name, "_ZN", 3) == 0 ? demangle_rust_legacy(name + 3) : NULL;
}
