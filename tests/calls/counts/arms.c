// SPDX-License-Identifier: MIT
/* Functions that are inlined in both arms of a branch, in the cases of a switch, and in conditions. */
#include "count.h"

COUNTED(scale)
COUNTED(clamp)
COUNTED(odd)
COUNTED(mix)

static ALWAYS unsigned scale(unsigned x, unsigned by)
{
	COUNT(scale);
	return x * by + 1;
}

static ALWAYS unsigned clamp(unsigned x)
{
	COUNT(clamp);
	return x > 1000 ? 1000 : x;
}

static ALWAYS int odd(unsigned x)
{
	COUNT(odd);
	return x & 1;
}

static inline unsigned mix(unsigned a, unsigned b)
{
	COUNT(mix);
	return a ^ (b << 5 | b >> 27);
}

APART unsigned arms(unsigned x)
{
	if (x & 4)
		x = scale(x, 3);
	else
		x = scale(x, 5);
	return clamp(x);
}

APART unsigned cases(unsigned x)
{
	switch (x % 6) {
	case 0:
		return scale(x, 2);
	case 1:
		return clamp(x * 9);
	case 2:
		return mix(x, 3) + scale(x, 7);
	case 3:
		return mix(clamp(x), scale(x, 1));
	case 4:
		return odd(x) ? mix(x, 1) : mix(x, 2);
	default:
		return x;
	}
}

APART unsigned conditions(unsigned x)
{
	unsigned sum = 0;

	if (odd(x) && odd(x / 2) && !odd(x / 4))
		sum += 1;
	if (odd(x / 8) || odd(x / 16))
		sum += clamp(x * 100);
	return odd(sum) ? mix(sum, x) : sum;
}

int main(void)
{
	for (unsigned i = 0; i < 600; i++)
		sink = arms(i) + cases(i) + conditions(i);
	SHOW(scale);
	SHOW(clamp);
	SHOW(odd);
	SHOW(mix);
	return 0;
}
