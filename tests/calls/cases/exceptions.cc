// SPDX-License-Identifier: MIT
// Exceptions: caught in direct and distant callers, in recursions, rethrown, through frames that clean up, by type,
// from constructors.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#define apart __attribute__((noinline, noclone))

namespace
{

unsigned cleaned;

unsigned used(unsigned v)
{
	__asm__ volatile("" : "+r"(v) : : "memory");
	return v;
}

struct guard {
	unsigned n;

	explicit guard(unsigned v) : n(v)
	{
	}
	apart ~guard()
	{
		cleaned += used(n);
	}
};

struct fails {
	guard first, second;

	apart explicit fails(unsigned n) : first(n), second(n + 1)
	{
		if (n % 2)
			throw static_cast<int>(n);
	}
};

apart void thrower(unsigned n)
{
	if (n % 3 == 0)
		throw std::runtime_error("third");
	if (n % 3 == 1)
		throw n;
	fails f(n);
}

/* Each frame of the recursion cleans up. */
apart unsigned cleans(unsigned depth, unsigned n)
{
	guard g(depth);

	if (depth)
		return cleans(depth - 1, n) + used(1);
	thrower(n);
	return 0;
}

/* Each catches some exceptions, and rethrows some. */
apart unsigned catches(unsigned depth, unsigned n)
{
	try {
		if (depth == 0)
			return cleans(2, n);
		return catches(depth - 1, n) + used(1);
	} catch (const std::exception &) {
		if (depth % 2 == 0)
			throw;
		return used(2);
	} catch (unsigned v) {
		if (depth < v % 4)
			throw v;
		return used(v);
	}
}

apart unsigned plain(unsigned depth, unsigned n)
{
	return depth ? plain(depth - 1, n) + used(1) : catches(3, n);
}

int compare(const void *a, const void *b)
{
	if (*static_cast<const char *>(a) == 'x')
		throw 'x';
	return *static_cast<const char *>(a) - *static_cast<const char *>(b);
}

/* Through frames of the library. */
apart unsigned through(unsigned n)
{
	char text[] = "hgfedcba";

	if (n % 2)
		text[3] = 'x';
	try {
		qsort(text, 8, 1, compare);
	} catch (char) {
		return 1;
	}
	return 2;
}

} // namespace

int main()
{
	unsigned sum = 0;

	for (unsigned n = 0; n < 9; n++) {
		try {
			sum += plain(n % 4, n);
		} catch (...) {
			sum += 100;
		}
		try {
			fails f(n);
			sum += 3;
		} catch (int v) {
			sum += static_cast<unsigned>(v);
		}
		sum += through(n);
	}
	std::printf("%u\n", sum + cleaned);
}
