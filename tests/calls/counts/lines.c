// SPDX-License-Identifier: MIT
/* Several calls of one inlined function in one line: by a macro, as arguments, in a condition. */
#include "count.h"

COUNTED(get)
COUNTED(set)
COUNTED(max2)
COUNTED(tiny)

static unsigned cells[16];

/* clang-format off */
static ALWAYS unsigned get(unsigned i) { COUNT(get); return cells[i & 15]; }

static ALWAYS void set(unsigned i, unsigned x) { COUNT(set); cells[i & 15] = x; }
/* clang-format on */

static ALWAYS unsigned max2(unsigned a, unsigned b)
{
	COUNT(max2);
	return a > b ? a : b;
}

static ALWAYS void tiny(void)
{
	COUNT(tiny);
}

/* clang-format off */
#define SWAP(i, j) do { unsigned a_ = get(i), b_ = get(j); set(i, b_); set(j, a_); } while (0)
#define FOUR(x) do { x; x; x; x; } while (0)

APART unsigned shuffle(unsigned n)
{
	SWAP(n, n + 1); SWAP(n + 2, n + 3); SWAP(n * 3, n * 5);
	FOUR(tiny());
	/* clang-format on */
	return max2(max2(get(n), get(n + 1)), max2(get(n + 2), get(n + 3)));
}

APART void nothing(void)
{
	/* clang-format off */
	tiny(); tiny();
	/* clang-format on */
	tiny();
}

int main(void)
{
	for (unsigned i = 0; i < 16; i++)
		set(i, i * i);
	for (unsigned i = 0; i < 200; i++) {
		sink = shuffle(i);
		nothing();
	}
	SHOW(get);
	SHOW(set);
	SHOW(max2);
	SHOW(tiny);
	return 0;
}
