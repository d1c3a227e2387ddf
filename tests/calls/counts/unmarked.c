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
	const char *text = "hello";

#ifdef __clang__
	/* It would compute the result, so that nothing was left of the function. */
	__asm__ volatile("" : "+r"(text));
#endif
	for (unsigned i = 0; i < n; i++)
		to[i] = hash(text) ^ i * 2654435761u ^ seed;
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
