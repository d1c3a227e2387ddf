// SPDX-License-Identifier: MIT
/* Inlined functions, with all ways of control into them, through them and out of them. */
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#define INLINE static inline __attribute__((always_inline))
#define APART __attribute__((noinline))

static volatile int sink;
static jmp_buf place;

APART int leaf(int x)
{
	return x * 3 + 1;
}

/* A loop that restarts, with a nested loop and a call in it. */
INLINE int inner(int x)
{
	int sum = 0;

	for (int i = 0; i < (x & 3); i++)
		sum += leaf(x + i);
	return sum;
}

INLINE int outer(int x)
{
	do
		x = x / 2 + (inner(x) & 1);
	while (x > 40);
	return x;
}

APART int loops(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++) {
		sum ^= outer(i);
		sum += outer(sum & 255);
	}
	return sum;
}

/* The compiler inlines some levels of a recursive function into itself. */
static int down(int x)
{
	int sum = leaf(x);

	if (x > 1)
		sum += down(x - 1);
	if (x > 2)
		sum += down(x - 2);
	return sum;
}

/* The call from an inlined function is the last action of its caller. */
INLINE int last(int x)
{
	return x & 1 ? leaf(x) : loops(x & 7);
}

APART int tail(int x)
{
	sink = x;
	return last(x);
}

/* Unlikely code is moved elsewhere, and is inlined as well. */
INLINE int checked(int x)
{
	if (__builtin_expect(x % 97 == 96, 0))
		throw std::runtime_error(std::to_string(x));
	return leaf(x);
}

INLINE int caught(int x)
{
	try {
		int sum = checked(x);

		sum += checked(x / 2);
		return sum;
	} catch (const std::runtime_error &e) {
		return (int)std::string(e.what()).size();
	}
}

APART int catches(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += caught(i);
	return sum;
}

INLINE int choose(int x)
{
	switch (x % 8) {
	case 0:
		return leaf(x);
	case 1:
		return x / 3;
	case 2:
		return inner(x);
	case 3:
		return x * x;
	case 4:
		return x ^ 0x55;
	case 5:
		return leaf(x / 5) - 1;
	case 6:
		return ~x;
	default:
		return sink;
	}
}

APART int chooses(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += choose(i);
	return sum;
}

INLINE void away(int x)
{
	if (x % 3 == 0)
		longjmp(place, x + 1);
	sink = leaf(x);
}

APART void further(int x)
{
	away(x);
	sink = x;
}

APART void jumps(int x)
{
	if (setjmp(place) == 0)
		further(x);
	else
		sink = leaf(x);
}

/* A function passed by address is called from an inlined function, and may be inlined as well. */
INLINE int apply(int (*f)(int), int x)
{
	return f(x) + 1;
}

APART int deep(int n)
{
	int sum = n ? deep(n - 1) : 0;

	return sum + apply(leaf, n) + inner(n);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 100, sum = 0;

	sum += deep(n / 3);
	sum += loops(n);
	sum += down(12);
	for (int i = 0; i < n; i++) {
		sum += tail(i);
		jumps(i);
	}
	sum += catches(n);
	sum += chooses(n);
	/* Frames that are open when the ring buffer no longer has their beginning. */
	sum += deep(n / 3) + outer(sum & 1023);
	printf("%d\n", sum);
}
