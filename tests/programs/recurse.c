/* SPDX-License-Identifier: MIT */
/* Recursion deeper than any return stack, mutual recursion, and a tail call. */
#include "program.h"

static apart uint64_t fib(unsigned n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static apart int odd(unsigned n);

static apart int even(unsigned n)
{
	return n == 0 ? 1 : odd(n - 1);
}

static apart int odd(unsigned n)
{
	return n == 0 ? 0 : even(n - 1);
}

static apart uint64_t deep(unsigned n, uint64_t v)
{
	volatile uint64_t keep = v;

	if (n == 0)
		return v;
	return deep(n - 1, v * 31 + n) + keep;
}

int main(int argc, char **argv)
{
	unsigned n = (unsigned)size_of(argc, argv, 16);
	uint64_t v = 0;

	for (unsigned i = 2; i <= n; i++)
		v += fib(i) + (uint64_t)even(i * 3) + deep(i * 4, i);
	return result(v);
}
