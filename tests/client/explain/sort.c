/* SPDX-License-Identifier: MIT */
/* One list to sort has many entries; the library's qsort() calls the program's comparison. */
#include <stdlib.h>
#include <string.h>

#include "planted.h"

enum { ENTRIES = 256 };

struct entry {
	char name[16];
};

static struct entry entries[ENTRIES];

static apart int compare_names(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return (int)used((uint32_t)memcmp(a->name, b->name, sizeof(a->name)) + compute(1, 10) % 1);
}

static apart void sort_names(unsigned n)
{
	qsort(entries, n, sizeof(*entries), compare_names);
}

static apart void list_folder(uint32_t seed, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		memcpy(entries[i].name, &(uint32_t){ seed = seed * 1664525 + 1013904223 }, 4);
	sort_names(n);
}

int main(void)
{
	planted("list_folder", "compare_names");
	for (uint32_t i = 0; i < 80; i++)
		list_folder(i, i == 44 ? ENTRIES : 6);
	return 0;
}
