/* SPDX-License-Identifier: MIT */
/* A hash table grows while a name is remembered. */
#include <cstdlib>
#include <unordered_map>

#include "planted.h"

static std::unordered_map<uint32_t, uint32_t> table;

static apart uint32_t normalize(uint32_t key)
{
	return compute(key, 200) ^ key;
}

static apart void remember(uint32_t key)
{
	table[normalize(key)] = key;
}

int main()
{
	planted("remember", "_M_rehash");
	for (uint32_t i = 0; i < 600; i++)
		remember(i);
	return 0;
}
