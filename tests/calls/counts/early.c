// SPDX-License-Identifier: MIT
/* Inlined functions that return early, whose callers go on from each return in another way. */
#include "count.h"

COUNTED(check)
COUNTED(parse)
COUNTED(digit)
COUNTED(lookup)

static ALWAYS int check(unsigned x)
{
	COUNT(check);
	if (x % 7 == 0)
		return -1;
	if (x % 5 == 0)
		return 0;
	sink = x;
	return 1;
}

static inline int digit(char c)
{
	COUNT(digit);
	if (c < '0' || c > '9')
		return -1;
	return c - '0';
}

static ALWAYS int parse(const char *s, unsigned *ret)
{
	unsigned n = 0;

	COUNT(parse);
	if (!*s)
		return -1;
	for (; *s; s++) {
		int d = digit(*s);

		if (d < 0)
			return -2;
		n = n * 10 + (unsigned)d;
	}
	*ret = n;
	return 0;
}

static ALWAYS const char *lookup(unsigned x)
{
	static const char *const names[] = { "12", "", "7x", "x7", "104", "99", "1", "31a4" };

	COUNT(lookup);
	return x < 8 ? names[x] : NULL;
}

APART int guards(unsigned x)
{
	const char *name = lookup(x % 11);
	unsigned n = 0;

	if (check(x) < 0)
		return -1;
	if (!name)
		return check(x + 1);
	if (parse(name, &n) < 0)
		return 2;
	return check(n) > 0 ? (int)n : 3;
}

int main(void)
{
	for (unsigned i = 0; i < 500; i++)
		sink += (unsigned)guards(i);
	SHOW(check);
	SHOW(parse);
	SHOW(digit);
	SHOW(lookup);
	return 0;
}
