// SPDX-License-Identifier: MIT
/* Comparisons that are inlined into the algorithms of the standard library. */
#include <algorithm>
#include <vector>

#include "count.h"

COUNTED(less)
COUNTED(even)
COUNTED(twist)
COUNTED(key)

struct Item {
	unsigned rank, value;
};

static inline unsigned key(const Item &i)
{
	COUNT(key);
	return i.rank * 31 + i.value;
}

static inline bool less(const Item &a, const Item &b)
{
	COUNT(less);
	return key(a) < key(b);
}

static ALWAYS bool even(const Item &i)
{
	COUNT(even);
	return !(i.rank & 1);
}

static ALWAYS Item twist(Item i)
{
	COUNT(twist);
	return Item{ i.value, i.rank };
}

APART unsigned run(std::vector<Item> &v)
{
	std::sort(v.begin(), v.end(), [](const Item &a, const Item &b) { return less(a, b); });
	auto middle = std::stable_partition(v.begin(), v.end(), [](const Item &i) { return even(i); });
	std::transform(v.begin(), middle, v.begin(), [](const Item &i) { return twist(i); });
	auto found = std::find_if(v.begin(), v.end(), [](const Item &i) { return even(i) && key(i) > 100; });
	return (unsigned)(std::count_if(v.begin(), v.end(), even) + (found - v.begin()));
}

int main()
{
	unsigned seed = 7;

	for (unsigned i = 0; i < 30; i++) {
		std::vector<Item> v;

		for (unsigned k = 0; k < i * 3; k++) {
			seed = seed * 1103515245 + 12345;
			v.push_back(Item{ seed >> 16 & 255, k });
		}
		sink = run(v);
	}
	SHOW(less);
	SHOW(even);
	SHOW(twist);
	SHOW(key);
}
