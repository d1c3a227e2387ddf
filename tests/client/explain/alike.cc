/* SPDX-License-Identifier: MIT */
/* All calls do the same, but for a few instructions. */
#include <algorithm>
#include <vector>

#include "planted.h"

static apart uint32_t median_of(std::vector<uint32_t> &values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

static apart uint32_t filter(uint32_t seed, std::vector<uint32_t> &values)
{
	for (auto &value : values)
		value = seed = seed * 1664525 + 1013904223;
	return median_of(values);
}

int main()
{
	std::vector<uint32_t> values(64);
	uint32_t seed = 1;

	planted("filter", "none");
	for (int i = 0; i < 200; i++)
		seed = filter(seed, values);
	return used(seed) == 0;
}
