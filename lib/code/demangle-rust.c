#include <stdint.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/hex.h"
#include "lib/code/demangle.h"

enum { OUT_MAX = 2048, DEPTH_MAX = 200, STEPS_MAX = 20000, PUNYCODE_MAX = 256, HASH_DIGITS = 16 };

/* Of both forms: what is left of the name, and what has been made of it. */
struct rust {
	const char *begin, *at, *end;
	struct buf out;
	bool broken, quiet;
	unsigned depth, steps;
	uint64_t lifetimes; /* bound around here */
};

struct identifier {
	const char *at;
	size_t size;
	uint64_t number; /* among those of its name */
	bool punycode;
};

static void print(struct rust *r, const char *text, size_t size)
{
	if (!r->quiet && !r->broken)
		buf_add(&r->out, text, size);
}

static void say(struct rust *r, const char *text)
{
	print(r, text, strlen(text));
}

static void say_number(struct rust *r, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%ju", (uintmax_t)n);
	say(r, text);
}

static void put_unicode(struct buf *b, uint32_t c)
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

static bool is_unicode(uint64_t c)
{
	return c >= 0x20 && c < 0x110000 && c != 0x7f && (c < 0x80 || c >= 0xa0) && (c < 0xd800 || c >= 0xe000);
}

static char next(struct rust *r)
{
	if (r->at < r->end)
		return *r->at++;
	r->broken = true;
	return 0;
}

static bool take(struct rust *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static uint64_t decimal(struct rust *r)
{
	uint64_t n = 0;

	if (r->at == r->end || !is_digit(*r->at))
		r->broken = true;
	else if (take(r, '0'))
		return 0;
	while (r->at < r->end && is_digit(*r->at) && n < UINT32_MAX)
		n = n * 10 + (uint64_t)(*r->at++ - '0');
	return n;
}

static struct identifier plain_identifier(struct rust *r, bool v0)
{
	struct identifier i = { .punycode = v0 && take(r, 'u') };

	i.size = (size_t)decimal(r);
	if (v0)
		take(r, '_');
	if (i.size > (size_t)(r->end - r->at))
		r->broken = true;
	if (r->broken)
		return (struct identifier){ .at = r->at };
	i.at = r->at;
	r->at += i.size;
	return i;
}

/* "_" is 0, "0_" is 1. */
static uint64_t base62(struct rust *r)
{
	uint64_t n = 0;

	if (take(r, '_'))
		return 0;
	while (!take(r, '_')) {
		char c = next(r);
		int digit = is_digit(c)            ? c - '0'
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

/* Absent is 0, "s_" is 1. */
static uint64_t disambiguator(struct rust *r)
{
	return take(r, 's') ? base62(r) + 1 : 0;
}

static struct identifier identifier(struct rust *r)
{
	uint64_t number = disambiguator(r);
	struct identifier i = plain_identifier(r, true);

	i.number = number;
	return i;
}

/* RFC 3492, 6.2, with "_" for "-". */
static bool decode_punycode(const struct identifier *i, struct buf *to)
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
			int digit = is_digit(c) ? c - '0' + 26 : c >= 'a' && c <= 'z' ? c - 'a' : -1;
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
		if (!is_unicode(n) || n_points == PUNYCODE_MAX)
			return false;
		memmove(points + index + 1, points + index, (n_points - index) * sizeof(*points));
		points[index++] = (uint32_t)n;
		n_points++;
	}
	for (size_t k = 0; k < n_points; k++)
		put_unicode(to, points[k]);
	return true;
}

static void say_identifier(struct rust *r, const struct identifier *i)
{
	if (!i->punycode)
		print(r, i->at, i->size);
	else if (!r->quiet && !r->broken && !decode_punycode(i, &r->out))
		r->broken = true;
}

/* Names that nest without end, or grow without end by what they refer back to, are no names. */
static bool enter(struct rust *r)
{
	if (++r->depth > DEPTH_MAX || ++r->steps > STEPS_MAX || buf_error(&r->out))
		r->broken = true;
	return !r->broken;
}

static void type(struct rust *r);
static void constant(struct rust *r);
static bool path(struct rust *r, bool in_value, bool leave_open);

/* What stands at an earlier place stands here as well; where nothing is printed it need not be read again. */
static bool back_reference(struct rust *r, const char **ret_here)
{
	const char *from = r->at - 1;
	uint64_t to = base62(r);

	if (to >= (uint64_t)(from - r->begin))
		r->broken = true;
	if (r->broken || r->quiet)
		return false;
	*ret_here = r->at;
	r->at = r->begin + to;
	return true;
}

static void lifetime(struct rust *r, uint64_t index)
{
	char text[3] = "'_";
	uint64_t depth = r->lifetimes - index;

	if (index == 0) {
		say(r, text);
		return;
	}
	if (index > r->lifetimes) {
		r->broken = true;
		return;
	}
	if (depth < 26) {
		text[1] = (char)('a' + depth);
		say(r, text);
		return;
	}
	say(r, "'_");
	say_number(r, depth);
}

/* "G" and how many: for<'a, 'b>. */
static uint64_t binder(struct rust *r)
{
	uint64_t n = take(r, 'G') ? base62(r) + 1 : 0;

	if (n > DEPTH_MAX)
		r->broken = true;
	if (!n || r->broken)
		return 0;
	say(r, "for<");
	for (uint64_t i = 0; i < n; i++) {
		if (i)
			say(r, ", ");
		r->lifetimes++;
		lifetime(r, 1);
	}
	say(r, "> ");
	return n;
}

static void generic_arguments(struct rust *r)
{
	for (bool first = true; !r->broken && !take(r, 'E'); first = false) {
		if (!first)
			say(r, ", ");
		if (take(r, 'L'))
			lifetime(r, base62(r));
		else if (take(r, 'K'))
			constant(r);
		else
			type(r);
	}
}

static void nested_path(struct rust *r, bool in_value)
{
	char space = next(r);
	struct identifier i;

	path(r, in_value, false);
	i = identifier(r);
	if (space >= 'A' && space <= 'Z') {
		say(r, "::{");
		if (space == 'C')
			say(r, "closure");
		else if (space == 'S')
			say(r, "shim");
		else
			print(r, &space, 1);
		if (i.size)
			say(r, ":");
		say_identifier(r, &i);
		say(r, "#");
		say_number(r, i.number);
		say(r, "}");
	} else if (space >= 'a' && space <= 'z') {
		if (i.size)
			say(r, "::");
		say_identifier(r, &i);
	} else {
		r->broken = true;
	}
}

/* <type>, <type as trait>; where an impl stands is not shown. */
static void impl_path(struct rust *r, char kind)
{
	bool quiet = r->quiet;

	if (kind != 'Y') {
		disambiguator(r);
		r->quiet = true;
		path(r, false, false);
		r->quiet = quiet;
	}
	say(r, "<");
	type(r);
	if (kind != 'M') {
		say(r, " as ");
		path(r, false, false);
	}
	say(r, ">");
}

/* leave_open: a list of arguments at its end is not closed, which is what is returned then. */
static bool path(struct rust *r, bool in_value, bool leave_open)
{
	struct identifier i;
	const char *here;
	bool open = false;
	char c;

	if (!enter(r))
		return false;
	c = next(r);
	switch (c) {
	case 'C':
		i = identifier(r);
		say_identifier(r, &i);
		break;
	case 'M':
	case 'X':
	case 'Y':
		impl_path(r, c);
		break;
	case 'N':
		nested_path(r, in_value);
		break;
	case 'I':
		path(r, in_value, false);
		say(r, in_value ? "::<" : "<");
		generic_arguments(r);
		open = leave_open;
		if (!open)
			say(r, ">");
		break;
	case 'B':
		if (back_reference(r, &here)) {
			open = path(r, in_value, leave_open);
			r->at = here;
		}
		break;
	default:
		r->broken = true;
	}
	r->depth--;
	return open;
}

static const char *basic_type(char c)
{
	static const char *const names[26] = {
		"i8",   "bool", "char", "f64", "str", "f32", NULL,  "u8", "isize", "usize", NULL,  "i32", "u32",
		"i128", "u128", "_",    NULL,  NULL,  "i16", "u16", "()", "...",   NULL,    "i64", "u64", "!",
	};

	return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static void function_type(struct rust *r)
{
	uint64_t bound = binder(r);

	if (take(r, 'U'))
		say(r, "unsafe ");
	if (take(r, 'K')) {
		say(r, "extern \"");
		if (take(r, 'C')) {
			say(r, "C");
		} else {
			struct identifier abi = plain_identifier(r, true);

			for (size_t i = 0; i < abi.size; i++)
				print(r, abi.at[i] == '_' ? "-" : abi.at + i, 1);
		}
		say(r, "\" ");
	}
	say(r, "fn(");
	for (bool first = true; !r->broken && !take(r, 'E'); first = false) {
		if (!first)
			say(r, ", ");
		type(r);
	}
	say(r, ")");
	if (!take(r, 'u')) {
		say(r, " -> ");
		type(r);
	}
	r->lifetimes -= bound;
}

static void dynamic_type(struct rust *r)
{
	uint64_t bound, limit;

	say(r, "dyn ");
	bound = binder(r);
	for (bool first = true; !r->broken && !take(r, 'E'); first = false) {
		bool open;

		if (!first)
			say(r, " + ");
		open = path(r, false, true);
		while (take(r, 'p')) {
			struct identifier i;

			say(r, open ? ", " : "<");
			open = true;
			i = plain_identifier(r, true);
			say_identifier(r, &i);
			say(r, " = ");
			type(r);
		}
		if (open)
			say(r, ">");
	}
	r->lifetimes -= bound;
	if (!take(r, 'L'))
		r->broken = true;
	limit = base62(r);
	if (limit) {
		say(r, " + ");
		lifetime(r, limit);
	}
}

static void reference_type(struct rust *r, bool changes)
{
	say(r, "&");
	if (take(r, 'L')) {
		uint64_t index = base62(r);

		if (index) {
			lifetime(r, index);
			say(r, " ");
		}
	}
	if (changes)
		say(r, "mut ");
	type(r);
}

static void tuple_type(struct rust *r)
{
	unsigned n = 0;

	say(r, "(");
	for (; !r->broken && !take(r, 'E'); n++) {
		if (n)
			say(r, ", ");
		type(r);
	}
	say(r, n == 1 ? ",)" : ")");
}

static void type(struct rust *r)
{
	const char *here;
	char c;

	if (!enter(r))
		return;
	c = next(r);
	switch (c) {
	case 'A':
	case 'S':
		say(r, "[");
		type(r);
		if (c == 'A') {
			say(r, "; ");
			constant(r);
		}
		say(r, "]");
		break;
	case 'T':
		tuple_type(r);
		break;
	case 'R':
	case 'Q':
		reference_type(r, c == 'Q');
		break;
	case 'P':
	case 'O':
		say(r, c == 'P' ? "*const " : "*mut ");
		type(r);
		break;
	case 'F':
		function_type(r);
		break;
	case 'D':
		dynamic_type(r);
		break;
	case 'B':
		if (back_reference(r, &here)) {
			type(r);
			r->at = here;
		}
		break;
	default:
		if (basic_type(c)) {
			say(r, basic_type(c));
		} else if (!r->broken) {
			r->at--;
			path(r, false, false);
		}
	}
	r->depth--;
}

static void say_constant(struct rust *r, char of, bool negative, uint64_t value)
{
	if (of == 'b' && value <= 1) {
		say(r, value ? "true" : "false");
	} else if (of == 'c' && is_unicode(value)) {
		say(r, "'");
		if (!r->quiet)
			put_unicode(&r->out, (uint32_t)value);
		say(r, "'");
	} else {
		say(r, negative ? "-" : "");
		say_number(r, value);
	}
}

/* Numbers, truth values and characters; what else a constant may be is not read. */
static void constant(struct rust *r)
{
	uint64_t value = 0;
	const char *here, *digits;
	bool negative;
	char of = next(r);

	if (of == 'p') {
		say(r, "_");
		return;
	}
	if (of == 'B') {
		if (enter(r) && back_reference(r, &here)) {
			constant(r);
			r->at = here;
		}
		r->depth--;
		return;
	}
	if (!of || !strchr("abchijlmnostxy", of))
		r->broken = true;
	negative = take(r, 'n');
	digits = r->at;
	while (!r->broken && !take(r, '_')) {
		int digit = hex_digit(next(r));

		if (digit < 0)
			r->broken = true;
		value = value << 4 | (uint64_t)(digit & 15);
	}
	if (r->at - digits <= HASH_DIGITS + 1) {
		say_constant(r, of, negative, value);
	} else {
		say(r, negative ? "-0x" : "0x");
		print(r, digits, (size_t)(r->at - digits) - 1);
	}
}

static char *finish(struct rust *r)
{
	char *ret = NULL;

	buf_u8(&r->out, 0);
	/* Of one that is too long the first part is shown, and the rest not looked at. */
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

static char *demangle_v0(const char *name)
{
	struct rust r = { .begin = name, .at = name, .end = name + strcspn(name, ".$"), .out.limit = OUT_MAX };

	path(&r, true, false);
	/* The crate that it was made for is not shown. */
	if (r.at < r.end) {
		r.quiet = true;
		path(&r, false, false);
	}
	if (r.at < r.end)
		r.broken = true;
	return finish(&r);
}

/* $LT$ and the like, $u7e$, and ".." for "::". False where it is none of these. */
static bool unescape(struct rust *r, const char **at, const char *end)
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
			say(r, codes[i].text);
			*at += size;
			return true;
		}
	}
	if (end - *at < 4 || (*at)[1] != 'u')
		return false;
	for (p = *at + 2; p < end && hex_digit(*p) >= 0 && c < 0x110000; p++)
		c = c << 4 | (uint32_t)hex_digit(*p);
	if (p == end || *p != '$' || !is_unicode(c))
		return false;
	put_unicode(&r->out, c);
	*at = p + 1;
	return true;
}

static void say_legacy(struct rust *r, const struct identifier *i)
{
	const char *at = i->at, *end = i->at + i->size;

	if (i->size >= 2 && at[0] == '_' && at[1] == '$')
		at++;
	while (at < end) {
		if (*at == '$' && unescape(r, &at, end))
			continue;
		if (end - at >= 2 && at[0] == '.' && at[1] == '.') {
			say(r, "::");
			at += 2;
			continue;
		}
		print(r, at++, 1);
	}
}

static bool is_hash(const struct identifier *i)
{
	if (i->size != 1 + HASH_DIGITS || i->at[0] != 'h')
		return false;
	for (size_t k = 1; k < i->size; k++)
		if (hex_digit(i->at[k]) < 0)
			return false;
	return true;
}

static char *demangle_legacy(const char *name)
{
	struct rust r = { .at = name, .end = name + strlen(name), .out.limit = OUT_MAX };
	struct identifier i, last = { 0 };
	bool first = true;

	while (!r.broken && !take(&r, 'E')) {
		i = plain_identifier(&r, false);
		if (last.size) {
			if (!first)
				say(&r, "::");
			say_legacy(&r, &last);
			first = false;
		}
		last = i;
	}
	/* Else it is C++. */
	if (!is_hash(&last) || (r.at < r.end && *r.at != '.'))
		r.broken = true;
	return finish(&r);
}

char *demangle_rust(const char *name)
{
	if (strncmp(name, "_R", 2) == 0)
		return demangle_v0(name + 2);
	return strncmp(name, "_ZN", 3) == 0 ? demangle_legacy(name + 3) : NULL;
}
