/* SPDX-License-Identifier: MIT */
/* A matcher of patterns backtracks without end on one name. */
#include <stdbool.h>
#include <stdlib.h>

#include "planted.h"

static const char *const patterns[] = { "*.c", "lib*.so.?", "*test*", "*a*a*a*a*x" };

static apart bool match_here(const char *pattern, const char *text)
{
	for (; *pattern; pattern++, text++) {
		if (*pattern == '*') {
			for (;; text++) {
				if (match_here(pattern + 1, text))
					return true;
				if (!*text)
					return false;
			}
		}
		if (!*text || (*pattern != '?' && *pattern != *text))
			return false;
	}
	return !*text;
}

static apart uint32_t classify_path(const char *path)
{
	uint32_t class = 0;

	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
		if (match_here(patterns[i], path))
			class |= 1u << i;
	}
	return class;
}

int main(void)
{
	static const char *const names[] = {
		"main.c", "libz.so.1", "README", "unit-test.c", "data.bin", "Makefile.am"
	};
	uint32_t sum = 0;

	planted("classify_path", "match_here");
	for (uint32_t i = 0; i < 120; i++)
		sum += classify_path(i == 77 ? "aaaaaaaaaaaaaaaaaaaa" : names[i % 6]);
	used(sum);
	return 0;
}
