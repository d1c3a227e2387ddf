/* SPDX-License-Identifier: MIT */
/* One tree is far deeper than the others. */
#include "planted.h"

static apart uint32_t visit(uint32_t node)
{
	return compute(node, 20);
}

static apart uint32_t descend(uint32_t node, unsigned depth)
{
	uint32_t sum = visit(node);

	if (depth)
		sum += descend(node + 1, depth - 1);
	return used(sum);
}

static apart uint32_t search(uint32_t root, unsigned depth)
{
	return compute(root, 100) + descend(root, depth);
}

int main(void)
{
	planted("search", "descend");
	for (uint32_t i = 0; i < 100; i++)
		used(search(i, i == 50 ? 300 : 3 + i % 4));
	return 0;
}
