// SPDX-License-Identifier: MIT
/* Templates of many inlined levels: a base class that is given its derived class, operators, parameter packs. */
#include "count.h"

COUNTED(area)
COUNTED(scaled)
COUNTED(sum)
COUNTED(dot)
COUNTED(plus)

template <typename Derived> struct Shape {
	unsigned scaled(unsigned by) const
	{
		COUNT(scaled);
		return static_cast<const Derived *>(this)->area() * by;
	}
};

struct Square : Shape<Square> {
	unsigned side;

	explicit Square(unsigned s) : side(s)
	{
	}
	unsigned area() const
	{
		COUNT(area);
		return side * side;
	}
};

struct Box : Shape<Box> {
	unsigned a, b;

	Box(unsigned x, unsigned y) : a(x), b(y)
	{
	}
	unsigned area() const
	{
		COUNT(area);
		return a * b + (a > b ? a - b : 0);
	}
};

struct Vec {
	unsigned x, y, z;
};

static ALWAYS Vec plus(const Vec &a, const Vec &b)
{
	COUNT(plus);
	return Vec{ a.x + b.x, a.y + b.y, a.z + b.z };
}

static ALWAYS Vec operator+(const Vec &a, const Vec &b)
{
	return plus(a, b);
}

static inline unsigned dot(const Vec &a, const Vec &b)
{
	COUNT(dot);
	return a.x * b.x + a.y * b.y + a.z * b.z;
}

static ALWAYS unsigned sum()
{
	return 0;
}

template <typename... Rest> static ALWAYS unsigned sum(unsigned first, Rest... rest)
{
	COUNT(sum);
	return first + sum(rest...);
}

APART unsigned shapes(unsigned i)
{
	Square s(i);
	Box b(i, i / 2);

	return sum(s.scaled(2), b.scaled(3), b.scaled(i), s.area());
}

APART unsigned vectors(unsigned i)
{
	Vec a{ i, 1, 2 }, b{ 3, i, 4 }, c = a + b + Vec{ i, i, i };

	for (unsigned k = 0; k < 3; k++)
		c = c + a;
	return dot(a, b) + dot(b, c);
}

int main()
{
	for (unsigned i = 0; i < 200; i++)
		sink = shapes(i) + vectors(i);
	SHOW(area);
	SHOW(scaled);
	SHOW(sum);
	SHOW(dot);
	SHOW(plus);
}
