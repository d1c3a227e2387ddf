// SPDX-License-Identifier: MIT
/* A function whose inlined code has no markers, and before its loop only constants: it counts no calls of its own. */
#include "count.h"

static unsigned hash(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n = n * 31 + *s;
	return n;
}

APART void fill(unsigned *to, unsigned n, unsigned seed)
{
	for (unsigned i = 0; i < n; i++)
		to[i] = hash("hello") ^ i * 2654435761u ^ seed;
}

int main(void)
{
	static unsigned values[200];

	for (unsigned i = 0; i < 50; i++)
		fill(values, 200, i);
	sink = values[7];
	printf("hash\t%u\n", 50 * 200);
	return 0;
}
