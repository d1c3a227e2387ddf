/* SPDX-License-Identifier: MIT */
/* Duplicates are found by a scan for each value, which one long list makes slow. */
#include "planted.h"

static uint32_t seen[512];

static apart int contains(unsigned n, uint32_t value)
{
	for (unsigned i = 0; i < n; i++)
		if (seen[i] == value)
			return 1;
	return 0;
}

static apart unsigned remove_duplicates(uint32_t seed, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++)
		if (!contains(kept, seed + i))
			seen[kept++] = seed + i;
	return kept;
}

static apart unsigned import_list(uint32_t seed, unsigned n)
{
	return remove_duplicates(compute(seed, 300), n) + used(compute(seed, 200) & 1);
}

int main(void)
{
	planted("import_list", "contains");
	for (uint32_t i = 0; i < 120; i++)
		used(import_list(i, i == 90 ? 300 : 8));
	return 0;
}
