/* SPDX-License-Identifier: MIT */
/*
 * Demangles names of D by its ABI ("Name Mangling"). Only the qualified name is printed. Types and template arguments
 * are parsed and skipped: the types of enclosing functions are between the names.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/demangle.h"

enum { OUT_MAX = 1024, DEPTH_MAX = 64, STEPS_MAX = 10000 };

struct d_name {
	const char *begin, *at; /* ends with a NUL */
	char out[OUT_MAX + 1];  /* truncated at OUT_MAX, which is more than demangle_symbol() returns */
	size_t size;
	unsigned quiet; /* nothing is printed while this is not 0 */
	unsigned depth;
	unsigned steps; /* bounds the work: the parser backtracks */
};

static bool skip_type(struct d_name *d);
static bool parse_qualified(struct d_name *d);

static void print_bytes(struct d_name *d, const char *text, size_t n)
{
	n = d->quiet ? 0 : MIN(n, OUT_MAX - d->size);
	memcpy(d->out + d->size, text, n);
	d->size += n;
}

static bool accept_char(struct d_name *d, char c)
{
	bool there = *d->at == c;

	d->at += there;
	return there;
}

static bool parse_number(struct d_name *d, size_t *ret)
{
	size_t n = 0;

	if (!isdigit((unsigned char)*d->at))
		return false;
	for (; isdigit((unsigned char)*d->at); d->at++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *d->at - '0', &n))
			return false;
	*ret = n;
	return true;
}

/*
 * Parses a back reference, Q at d->at and a distance in base 26 whose last digit is a lower-case letter. Returns what
 * it refers to, NULL: malformed.
 */
static const char *parse_back_reference(struct d_name *d)
{
	const char *q = d->at++;
	size_t n = 0;

	for (; isupper((unsigned char)*d->at) && n <= (size_t)(q - d->begin); d->at++)
		n = n * 26 + (size_t)(*d->at - 'A');
	if (!islower((unsigned char)*d->at))
		return NULL;
	n = n * 26 + (size_t)(*d->at++ - 'a');
	return n && n <= (size_t)(q - d->begin) ? q - n : NULL;
}

/* Returns whether a name starts here. A back reference may also be one to a type. */
static bool is_symbol(const struct d_name *d)
{
	struct d_name ahead = { .begin = d->begin, .at = d->at };
	const char *to;

	if (*d->at != 'Q')
		return isdigit((unsigned char)*d->at) || strncmp(d->at, "__T", 3) == 0 || strncmp(d->at, "__U", 3) == 0;
	to = parse_back_reference(&ahead);
	return to && isdigit((unsigned char)*to);
}

static void print_identifier(struct d_name *d, const char *name, size_t n)
{
	static const struct {
		const char *name, *shown;
	} special[] = { { "__ctor", "this" }, { "__dtor", "~this" }, { "__postblit", "this(this)" } };

	for (size_t i = 0; i < ELEMENTS(special); i++)
		if (n == strlen(special[i].name) && memcmp(name, special[i].name, n) == 0) {
			print_bytes(d, special[i].shown, strlen(special[i].shown));
			return;
		}
	print_bytes(d, name, n);
}

static bool skip_template_argument(struct d_name *d);

static bool parse_template(struct d_name *d)
{
	bool good;

	d->at += 3;
	if (!is_symbol(d) || *d->at == '_' || d->depth >= DEPTH_MAX)
		return false;
	d->depth++;
	good = parse_qualified(d);
	d->quiet++;
	while (good && *d->at && *d->at != 'Z')
		good = skip_template_argument(d);
	d->quiet--;
	d->depth--;
	print_bytes(d, "!(...)", 6);
	return good && accept_char(d, 'Z');
}

/* Parses a length and an identifier. Older compilers put a template instance into the identifier. */
static bool parse_identifier(struct d_name *d)
{
	const char *end;
	size_t n;

	if (!parse_number(d, &n) || strnlen(d->at, n) < n)
		return false;
	end = d->at + n;
	if (n > 3 && (strncmp(d->at, "__T", 3) == 0 || strncmp(d->at, "__U", 3) == 0))
		return parse_template(d) && d->at == end;
	print_identifier(d, d->at, n);
	d->at = end;
	return true;
}

static bool parse_symbol(struct d_name *d)
{
	struct d_name there;

	if (*d->at == '_')
		return parse_template(d);
	if (*d->at != 'Q')
		return parse_identifier(d);
	there = (struct d_name){ .begin = d->begin, .depth = d->depth, .steps = d->steps };
	there.at = parse_back_reference(d);
	/* The identifier may be a template instance with a cyclic reference; d->depth and d->steps bound it. */
	if (!there.at || !parse_identifier(&there))
		return false;
	d->steps = there.steps;
	print_bytes(d, there.out, there.size);
	return true;
}

static bool skip_modifiers(struct d_name *d)
{
	while (*d->at == 'x' || *d->at == 'y' || *d->at == 'O' || strncmp(d->at, "Ng", 2) == 0)
		d->at += *d->at == 'N' ? 2 : 1;
	return true;
}

/* Skips a function type up to its return type. */
static bool skip_function(struct d_name *d)
{
	if (!*d->at || !strchr("FURVWY", *d->at))
		return false;
	d->at++;
	while (*d->at == 'N' && d->at[1] && strchr("abcdefijlm", d->at[1]))
		d->at += 2;
	while (*d->at && !strchr("XYZ", *d->at)) {
		accept_char(d, 'M');
		if (strncmp(d->at, "Nk", 2) == 0)
			d->at += 2;
		if (accept_char(d, 'I'))
			accept_char(d, 'K');
		else if (*d->at && strchr("JKL", *d->at))
			d->at++;
		if (!skip_type(d))
			return false;
	}
	return *d->at++ != '\0';
}

static bool skip_qualified(struct d_name *d)
{
	bool good;

	d->quiet++;
	good = parse_qualified(d);
	d->quiet--;
	return good;
}

static bool skip_n_types(struct d_name *d)
{
	size_t n;

	if (!parse_number(d, &n))
		return false;
	for (; n; n--)
		if (!skip_type(d))
			return false;
	return true;
}

static bool skip_type_body(struct d_name *d)
{
	size_t n;

	if (*d->at && strchr("FURVWY", *d->at))
		return skip_function(d) && skip_type(d);
	switch (*d->at++) {
	case 'x':
	case 'y':
	case 'O':
	case 'A':
	case 'P':
		return skip_type(d);
	case 'N':
		return accept_char(d, 'n') || ((accept_char(d, 'g') || accept_char(d, 'h')) && skip_type(d));
	case 'G':
		return parse_number(d, &n) && skip_type(d);
	case 'H':
		return skip_type(d) && skip_type(d);
	case 'D':
		return skip_modifiers(d) && skip_type(d);
	case 'I':
	case 'C':
	case 'S':
	case 'E':
	case 'T':
		return skip_qualified(d);
	case 'B':
		return skip_n_types(d);
	case 'Q':
		d->at--;
		return parse_back_reference(d) != NULL;
	case 'z':
		return accept_char(d, 'i') || accept_char(d, 'k');
	case '\0':
		d->at--;
		return false;
	default:
		return strchr("vghstiklmfdeopjqrcbauwn", d->at[-1]) != NULL;
	}
}

static bool skip_type(struct d_name *d)
{
	bool good;

	if (d->depth >= DEPTH_MAX || d->steps++ >= STEPS_MAX)
		return false;
	d->depth++;
	good = skip_type_body(d);
	d->depth--;
	return good;
}

static bool skip_digits(struct d_name *d, const char *of)
{
	size_t n = strspn(d->at, of);

	d->at += n;
	return n != 0;
}

static bool skip_values(struct d_name *d);

static bool skip_value(struct d_name *d)
{
	static const char hex[] = "0123456789ABCDEFNPXI", plain[] = "0123456789";
	size_t n;

	switch (*d->at) {
	case 'n':
		d->at++;
		return true;
	case 'i':
	case 'N':
		d->at++;
		return skip_digits(d, plain);
	case 'e':
		d->at++;
		return skip_digits(d, hex);
	case 'c':
		d->at++;
		return skip_digits(d, hex) && accept_char(d, 'c') && skip_digits(d, hex);
	case 'a':
	case 'w':
	case 'd':
		d->at++;
		if (!parse_number(d, &n) || !accept_char(d, '_'))
			return false;
		for (n = MIN(n, SIZE_MAX / 2) * 2; n && isxdigit((unsigned char)*d->at); n--)
			d->at++;
		return n == 0;
	case 'A':
	case 'S':
		d->at++;
		return skip_values(d);
	case 'f':
		d->at++;
		return strncmp(d->at, "_D", 2) == 0 && (d->at += 2, skip_qualified(d)) && skip_modifiers(d) &&
		       skip_type(d);
	default:
		return skip_digits(d, plain);
	}
}

/* Skips the values of an array. Associative arrays, which have two values per element, are not recognised. */
static bool skip_values(struct d_name *d)
{
	bool good = d->depth < DEPTH_MAX;
	size_t n;

	if (!good || !parse_number(d, &n))
		return false;
	d->depth++;
	for (; n && good; n--)
		good = skip_value(d);
	d->depth--;
	return good;
}

static bool skip_template_argument(struct d_name *d)
{
	size_t n;

	accept_char(d, 'H');
	switch (*d->at++) {
	case 'T':
		return skip_type(d);
	case 'V':
		return skip_type(d) && skip_value(d);
	case 'S':
		return skip_qualified(d);
	case 'X':
		if (!parse_number(d, &n) || strnlen(d->at, n) < n)
			return false;
		d->at += n;
		return true;
	default:
		return false;
	}
}

/* Skips the type of an enclosing function, which is between its name and the next one, without a return type. */
static void skip_enclosing_type(struct d_name *d)
{
	const char *at = d->at;

	if (accept_char(d, 'M'))
		skip_modifiers(d);
	d->quiet++;
	if (!skip_function(d) || !is_symbol(d))
		d->at = at;
	d->quiet--;
}

static bool parse_qualified(struct d_name *d)
{
	bool first = true;

	if (!is_symbol(d))
		return false;
	while (is_symbol(d)) {
		if (d->steps++ >= STEPS_MAX)
			return false;
		if (!first)
			print_bytes(d, ".", 1);
		first = false;
		if (!parse_symbol(d))
			return false;
		skip_enclosing_type(d);
	}
	return true;
}

char *demangle_d(const char *name)
{
	struct d_name d = { .begin = name, .at = name + 2 };

	if (strcmp(name, "_Dmain") == 0)
		return strdup("D main");
	if (strncmp(name, "_D", 2) != 0 || !parse_qualified(&d))
		return NULL;
	/* The symbol's type follows, and possibly a suffix of the compiler, such as .part.0. */
	if (!accept_char(&d, 'Z')) {
		if (accept_char(&d, 'M'))
			skip_modifiers(&d);
		if (!skip_type(&d))
			return NULL;
	}
	return *d.at && *d.at != '.' ? NULL : strndup(d.out, d.size);
}
