/* SPDX-License-Identifier: MIT */
/* Calls: plain, through pointers, deep and mutual recursion. */
#include "case.h"

apart unsigned leaf(unsigned n)
{
	return n * 3 + 1;
}

apart unsigned deep(unsigned n)
{
	unsigned v = n ? deep(n - 1) : leaf(n);

	return used(v) + 1;
}

apart unsigned odd(unsigned n);

apart unsigned even(unsigned n)
{
	return n ? used(odd(n - 1)) + 1 : leaf(n);
}

apart unsigned odd(unsigned n)
{
	return n ? used(even(n - 1)) + 2 : 0;
}

apart unsigned tree(unsigned n)
{
	return n < 2 ? leaf(n) : used(tree(n - 1)) + tree(n - 2);
}

static unsigned (*volatile chosen[])(unsigned) = { leaf, even, odd, tree };

apart unsigned through(unsigned n)
{
	return used(chosen[n % 4](n)) + 1;
}

int main(void)
{
	unsigned sum = deep(300) + even(40) + odd(41) + tree(9);

	for (unsigned i = 0; i < 12; i++)
		sum += through(i);
	return done(sum);
}
