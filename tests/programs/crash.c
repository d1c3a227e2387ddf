/* SPDX-License-Identifier: MIT */
/* Works, then writes through a null pointer. */
#include "program.h"

static apart uint32_t work(uint32_t v)
{
	return v % 3 ? v * 7 : v + 5;
}

static apart void fall(volatile uint32_t *at, uint32_t v)
{
	*at = v;
}

int main(int argc, char **argv)
{
	uint32_t v = 1;

	for (unsigned long round = size_of(argc, argv, 10000); round; round--)
		v = work(v);
	fall(NULL, v);
	return result(v);
}
