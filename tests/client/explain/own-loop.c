/* SPDX-License-Identifier: MIT */
/* The function that is asked about has the loop itself. */
#include "planted.h"

static apart uint32_t begin(uint32_t n)
{
	return compute(n, 50);
}

static apart uint32_t process(uint32_t n, unsigned steps)
{
	uint32_t sum = begin(n);

	for (unsigned i = 0; i < steps; i++)
		sum = used(sum) * 31 + i;
	return sum;
}

int main(void)
{
	planted("process", "process");
	for (uint32_t i = 0; i < 50; i++)
		used(process(i, i == 20 ? 5000 : 100));
	return 0;
}
