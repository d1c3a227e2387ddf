/*
 * Names of D, by its ABI ("Name Mangling"). What is told is the qualified name: types are gone over, as what encloses a
 * nested function has its own between the names; so are the arguments of templates.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/demangle.h"

enum { OUT_MAX = 1024, DEPTH_MAX = 64, STEPS_MAX = 10000 };

struct d {
	const char *begin, *at; /* ends with a NUL */
	char out[OUT_MAX + 1];  /* what has no more room is left out: nobody is shown so much */
	size_t size;
	unsigned quiet, depth;
	unsigned steps; /* some is gone over once more when it turns out to be something else */
};

static bool skip_type(struct d *d);
static bool qualified(struct d *d);

static void print(struct d *d, const char *text, size_t n)
{
	n = d->quiet ? 0 : MIN(n, OUT_MAX - d->size);
	memcpy(d->out + d->size, text, n);
	d->size += n;
}

static bool take(struct d *d, char c)
{
	bool there = *d->at == c;

	d->at += there;
	return there;
}

static bool number(struct d *d, size_t *ret)
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

/* Where a Q at d->at leads back to: so far before it, in base 26, the last digit a small letter. */
static const char *back(struct d *d)
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

/* Whether a name begins here; types may stand back to types, too. */
static bool is_symbol(const struct d *d)
{
	struct d ahead = { .begin = d->begin, .at = d->at };
	const char *to;

	if (*d->at != 'Q')
		return isdigit((unsigned char)*d->at) || strncmp(d->at, "__T", 3) == 0 || strncmp(d->at, "__U", 3) == 0;
	to = back(&ahead);
	return to && isdigit((unsigned char)*to);
}

static void put_identifier(struct d *d, const char *name, size_t n)
{
	static const struct {
		const char *name, *shown;
	} special[] = { { "__ctor", "this" }, { "__dtor", "~this" }, { "__postblit", "this(this)" } };

	for (size_t i = 0; i < ELEMENTS(special); i++)
		if (n == strlen(special[i].name) && memcmp(name, special[i].name, n) == 0) {
			print(d, special[i].shown, strlen(special[i].shown));
			return;
		}
	print(d, name, n);
}

static bool template_argument(struct d *d);

static bool template(struct d *d)
{
	bool good;

	d->at += 3;
	if (!is_symbol(d) || *d->at == '_' || d->depth >= DEPTH_MAX)
		return false;
	d->depth++;
	good = qualified(d);
	d->quiet++;
	while (good && *d->at && *d->at != 'Z')
		good = template_argument(d);
	d->quiet--;
	d->depth--;
	print(d, "!(...)", 6);
	return good && take(d, 'Z');
}

/* By its length: of older compilers a template's instance may stand within. */
static bool identifier(struct d *d)
{
	const char *end;
	size_t n;

	if (!number(d, &n) || strnlen(d->at, n) < n)
		return false;
	end = d->at + n;
	if (n > 3 && (strncmp(d->at, "__T", 3) == 0 || strncmp(d->at, "__U", 3) == 0))
		return template(d) && d->at == end;
	put_identifier(d, d->at, n);
	d->at = end;
	return true;
}

static bool symbol(struct d *d)
{
	struct d there;

	if (*d->at == '_')
		return template(d);
	if (*d->at != 'Q')
		return identifier(d);
	there = (struct d){ .begin = d->begin, .depth = d->depth, .steps = d->steps };
	there.at = back(d);
	/* A template's instance that stands there may lead back to here. */
	if (!there.at || !identifier(&there))
		return false;
	d->steps = there.steps;
	print(d, there.out, there.size);
	return true;
}

static bool skip_modifiers(struct d *d)
{
	while (*d->at == 'x' || *d->at == 'y' || *d->at == 'O' || strncmp(d->at, "Ng", 2) == 0)
		d->at += *d->at == 'N' ? 2 : 1;
	return true;
}

/* Without what it returns. */
static bool skip_function(struct d *d)
{
	if (!*d->at || !strchr("FURVWY", *d->at))
		return false;
	d->at++;
	while (*d->at == 'N' && d->at[1] && strchr("abcdefijlm", d->at[1]))
		d->at += 2;
	while (*d->at && !strchr("XYZ", *d->at)) {
		take(d, 'M');
		if (strncmp(d->at, "Nk", 2) == 0)
			d->at += 2;
		if (take(d, 'I'))
			take(d, 'K');
		else if (*d->at && strchr("JKL", *d->at))
			d->at++;
		if (!skip_type(d))
			return false;
	}
	return *d->at++ != '\0';
}

static bool skip_qualified(struct d *d)
{
	bool good;

	d->quiet++;
	good = qualified(d);
	d->quiet--;
	return good;
}

static bool skip_n_types(struct d *d)
{
	size_t n;

	if (!number(d, &n))
		return false;
	for (; n; n--)
		if (!skip_type(d))
			return false;
	return true;
}

static bool skip_type_here(struct d *d)
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
		return take(d, 'n') || ((take(d, 'g') || take(d, 'h')) && skip_type(d));
	case 'G':
		return number(d, &n) && skip_type(d);
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
		return back(d) != NULL;
	case 'z':
		return take(d, 'i') || take(d, 'k');
	case '\0':
		d->at--;
		return false;
	default:
		return strchr("vghstiklmfdeopjqrcbauwn", d->at[-1]) != NULL;
	}
}

static bool skip_type(struct d *d)
{
	bool good;

	if (d->depth >= DEPTH_MAX || d->steps++ >= STEPS_MAX)
		return false;
	d->depth++;
	good = skip_type_here(d);
	d->depth--;
	return good;
}

static bool skip_digits(struct d *d, const char *of)
{
	size_t n = strspn(d->at, of);

	d->at += n;
	return n != 0;
}

static bool skip_values(struct d *d);

static bool skip_value(struct d *d)
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
		return skip_digits(d, hex) && take(d, 'c') && skip_digits(d, hex);
	case 'a':
	case 'w':
	case 'd':
		d->at++;
		if (!number(d, &n) || !take(d, '_'))
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

/* An array's; one that says of what to what has twice as many, and cannot be told apart from others here. */
static bool skip_values(struct d *d)
{
	bool good = d->depth < DEPTH_MAX;
	size_t n;

	if (!good || !number(d, &n))
		return false;
	d->depth++;
	for (; n && good; n--)
		good = skip_value(d);
	d->depth--;
	return good;
}

static bool template_argument(struct d *d)
{
	size_t n;

	take(d, 'H');
	switch (*d->at++) {
	case 'T':
		return skip_type(d);
	case 'V':
		return skip_type(d) && skip_value(d);
	case 'S':
		return skip_qualified(d);
	case 'X':
		if (!number(d, &n) || strnlen(d->at, n) < n)
			return false;
		d->at += n;
		return true;
	default:
		return false;
	}
}

/* What encloses a function's own name may be a function, and then has its type behind it, but for what it returns. */
static void enclosing(struct d *d)
{
	const char *at = d->at;

	if (take(d, 'M'))
		skip_modifiers(d);
	d->quiet++;
	if (!skip_function(d) || !is_symbol(d))
		d->at = at;
	d->quiet--;
}

static bool qualified(struct d *d)
{
	bool first = true;

	if (!is_symbol(d))
		return false;
	while (is_symbol(d)) {
		if (d->steps++ >= STEPS_MAX)
			return false;
		if (!first)
			print(d, ".", 1);
		first = false;
		if (!symbol(d))
			return false;
		enclosing(d);
	}
	return true;
}

char *demangle_d(const char *name)
{
	struct d d = { .begin = name, .at = name + 2 };

	if (strcmp(name, "_Dmain") == 0)
		return strdup("D main");
	if (strncmp(name, "_D", 2) != 0 || !qualified(&d))
		return NULL;
	/* Behind it stands its type, and what the compiler made of a part of it. */
	if (!take(&d, 'Z')) {
		if (take(&d, 'M'))
			skip_modifiers(&d);
		if (!skip_type(&d))
			return NULL;
	}
	return *d.at && *d.at != '.' ? NULL : strndup(d.out, d.size);
}
