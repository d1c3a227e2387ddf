/* SPDX-License-Identifier: MIT */
/* Library functions called through stubs that are bound at the first call, and through pointers. */
#include <string.h>

#include "case.h"

static unsigned compare_calls;

static int compare(const void *a, const void *b)
{
	compare_calls++;
	return *(const unsigned char *)a - *(const unsigned char *)b;
}

apart unsigned sorted(unsigned n)
{
	char text[40];

	snprintf(text, sizeof(text), "%u and %u", n, n * 7);
	qsort(text, strlen(text), 1, compare);
	return (unsigned)atoi(text + 1) + (unsigned)strlen(text);
}

apart size_t tail(const char *s)
{
	return strlen(s);
}

static size_t (*volatile length)(const char *) = strlen;

int main(void)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < 4; i++)
		sum += sorted(i) + (unsigned)tail("four") + (unsigned)length("seven");
	free(malloc(sum % 100 + 1));
	return done(sum + compare_calls);
}
