/* SPDX-License-Identifier: MIT */
/* Calls of the C library: string functions, qsort with a callback, formatted output; through a PLT if dynamic. */
#include <string.h>

#include "program.h"

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static apart size_t words(unsigned long round)
{
	char text[64][24], *list[64];
	size_t sum = 0;

	for (unsigned i = 0; i < 64; i++) {
		snprintf(text[i], sizeof(text[i]), "%x-%lu", (i * 2654435761u) >> 12, round);
		list[i] = text[i];
	}
	qsort(list, 64, sizeof(list[0]), compare);
	for (unsigned i = 0; i < 64; i++) {
		char *copy = strdup(list[i]);

		sum += strlen(copy) + (size_t)(strchr(copy, '-') - copy);
		free(copy);
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t v = 0;

	for (unsigned long round = size_of(argc, argv, 6); round; round--)
		v += words(round);
	return result(v);
}
