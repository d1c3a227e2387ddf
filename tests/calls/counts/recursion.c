// SPDX-License-Identifier: MIT
/* Recursive functions, some levels of which the compiler inlines into themselves. It could make none of them a loop. */
#include "count.h"

COUNTED(down)
COUNTED(fib)
COUNTED(ping)
COUNTED(pong)
COUNTED(leaf)
COUNTED(walk)

struct tree {
	struct tree *left, *right;
	unsigned value;
};

static ALWAYS unsigned leaf(unsigned x)
{
	COUNT(leaf);
	return x * 7 + 3;
}

static unsigned down(unsigned x)
{
	unsigned sum;

	COUNT(down);
	sum = leaf(x);
	if (x > 1)
		sum ^= down(x - 1) >> 1;
	return sum * 3;
}

static unsigned fib(unsigned n)
{
	COUNT(fib);
	return n < 2 ? n : fib(n - 1) ^ fib(n - 2) << 1;
}

static unsigned pong(unsigned n);

static unsigned ping(unsigned n)
{
	COUNT(ping);
	return n ? pong(n - 1) >> 1 ^ leaf(n) : 1;
}

static unsigned pong(unsigned n)
{
	COUNT(pong);
	return n ? ping(n - 1) ^ n : 2;
}

static unsigned walk(const struct tree *t)
{
	COUNT(walk);
	return t ? walk(t->left) ^ leaf(t->value) ^ walk(t->right) >> 1 : 0;
}

static struct tree *grow(unsigned depth)
{
	struct tree *t = (struct tree *)calloc(1, sizeof(*t));

	t->value = depth;
	if (depth) {
		t->left = grow(depth - 1);
		t->right = depth & 1 ? grow(depth - 1) : NULL;
	}
	return t;
}

int main(void)
{
	struct tree *t = grow(8);

	for (unsigned i = 0; i < 12; i++)
		sink = down(i) + fib(i) + ping(i * 3) + walk(t);
	SHOW(down);
	SHOW(fib);
	SHOW(ping);
	SHOW(pong);
	SHOW(leaf);
	SHOW(walk);
	return 0;
}
