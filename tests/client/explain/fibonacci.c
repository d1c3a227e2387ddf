/* SPDX-License-Identifier: MIT */
/* The function that is asked about calls itself. */
#include "planted.h"

static apart uint32_t fibonacci(uint32_t n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int main(void)
{
	planted("fibonacci", "fibonacci");
	for (uint32_t i = 0; i < 50; i++)
		used(fibonacci(i == 20 ? 15 : 5 + i % 2));
	return 0;
}
