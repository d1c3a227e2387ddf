// SPDX-License-Identifier: MIT
/* Inlined functions three deep, one after another, and twice in one expression. */
#include "count.h"

COUNTED(innermost)
COUNTED(middle)
COUNTED(outermost)
COUNTED(twice)
COUNTED(shared)

static ALWAYS unsigned innermost(unsigned x)
{
	COUNT(innermost);
	return x * 2654435761u >> 7;
}

static ALWAYS unsigned middle(unsigned x)
{
	COUNT(middle);
	return innermost(x) ^ innermost(x + 1);
}

static ALWAYS unsigned outermost(unsigned x)
{
	unsigned y;

	COUNT(outermost);
	y = middle(x);
	if (y & 1)
		y += innermost(y);
	return middle(y);
}

static inline unsigned shared(unsigned x)
{
	COUNT(shared);
	return x + (x << 3);
}

static ALWAYS unsigned twice(unsigned x)
{
	COUNT(twice);
	return shared(x) + shared(x >> 1);
}

APART unsigned first(unsigned x)
{
	unsigned y = outermost(x);

	y += twice(y);
	y += twice(x);
	return y;
}

APART unsigned second(unsigned x)
{
	return outermost(x) + outermost(x + 1) + shared(x);
}

int main(void)
{
	for (unsigned i = 0; i < 300; i++)
		sink = first(i) + second(sink);
	SHOW(innermost);
	SHOW(middle);
	SHOW(outermost);
	SHOW(twice);
	SHOW(shared);
	return 0;
}
