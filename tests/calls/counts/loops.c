// SPDX-License-Identifier: MIT
/* Loops around inlined functions, of which each iteration is a call, and loops in them. */
#include "count.h"

COUNTED(step)
COUNTED(fixed)
COUNTED(until)
COUNTED(summed)
COUNTED(pair)
COUNTED(head)

static ALWAYS unsigned step(unsigned x)
{
	COUNT(step);
	return x ^ x >> 3;
}

static ALWAYS unsigned fixed(unsigned x)
{
	COUNT(fixed);
	return x * 3 + 1;
}

static ALWAYS int until(unsigned *x)
{
	COUNT(until);
	*x = *x * 5 + 1;
	return (*x & 63) == 0;
}

static ALWAYS unsigned summed(const unsigned char *p, unsigned n)
{
	unsigned sum = 0;

	COUNT(summed);
	for (unsigned i = 0; i < n; i++)
		sum += p[i];
	return sum;
}

static ALWAYS unsigned pair(unsigned x)
{
	COUNT(pair);
	do
		x = x / 3;
	while (x > 9);
	return x;
}

static ALWAYS unsigned head(unsigned n)
{
	unsigned sum = 0;

	COUNT(head);
	while (n--)
		sum += step(n);
	return sum;
}

APART unsigned variable(unsigned n)
{
	unsigned x = n;

	for (unsigned i = 0; i < n; i++)
		x += step(x);
	return x;
}

APART unsigned constant(unsigned x)
{
	for (int i = 0; i < 4; i++)
		x = fixed(x);
	for (int i = 0; i < 3; i++)
		x += fixed(i) * x;
	return x;
}

APART unsigned condition(unsigned x)
{
	while (!until(&x))
		;
	do
		x++;
	while (!until(&x));
	return x;
}

APART unsigned inside(const unsigned char *p, unsigned n)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++) {
		sum += summed(p, i & 7);
		sum += pair(sum + i);
		sum ^= head(i & 3);
	}
	return sum;
}

int main(void)
{
	static unsigned char bytes[16] = { 3, 1, 4, 1, 5, 9, 2, 6 };

	for (unsigned i = 0; i < 60; i++) {
		sink = variable(i);
		sink = constant(sink);
		sink = condition(sink * 2);
		sink = inside(bytes, i & 15);
	}
	SHOW(step);
	SHOW(fixed);
	SHOW(until);
	SHOW(summed);
	SHOW(pair);
	SHOW(head);
	return 0;
}
