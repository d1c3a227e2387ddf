// SPDX-License-Identifier: MIT
/* Lambdas and function objects that are inlined into templates. */
#include <numeric>
#include <vector>

#include "count.h"

COUNTED(each)
COUNTED(compose)
COUNTED(Adder)
COUNTED(twice_)
COUNTED(plain)

struct Adder {
	unsigned by;

	explicit Adder(unsigned n) : by(n)
	{
		COUNT(Adder);
	}
	unsigned operator()(unsigned x) const
	{
		return x + by;
	}
};

static inline unsigned plain(unsigned x)
{
	COUNT(plain);
	return x ^ 0x5a5a;
}

template <typename F> static ALWAYS void each(const std::vector<unsigned> &v, F f)
{
	COUNT(each);
	for (unsigned x : v)
		f(x);
}

template <typename F, typename G> static ALWAYS unsigned compose(F f, G g, unsigned x)
{
	COUNT(compose);
	return f(g(x));
}

template <typename F> static inline unsigned twice_(F f, unsigned x)
{
	COUNT(twice_);
	return f(f(x));
}

APART unsigned run(const std::vector<unsigned> &v)
{
	unsigned sum = 0;

	each(v, [&](unsigned x) { sum += plain(x); });
	each(v, [&](unsigned x) {
		if (x % 3)
			sum ^= compose(
			    Adder(x), [](unsigned y) { return plain(y) * 2; }, sum);
	});
	sum = twice_(Adder(sum), 1) + twice_([](unsigned x) { return plain(x); }, sum);
	return sum;
}

int main()
{
	std::vector<unsigned> v(24);

	std::iota(v.begin(), v.end(), 0u);
	for (unsigned i = 0; i < 40; i++) {
		v[i % 24] = i;
		sink = run(v);
	}
	SHOW(each);
	SHOW(compose);
	SHOW(Adder);
	SHOW(twice_);
	SHOW(plain);
}
