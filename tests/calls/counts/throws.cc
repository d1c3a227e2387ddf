// SPDX-License-Identifier: MIT
/* Exceptions that are thrown in inlined functions, pass through some, and are caught in others. */
#include <stdexcept>

#include "count.h"

COUNTED(risky)
COUNTED(guarded)
COUNTED(release)
COUNTED(Guard)
COUNTED(retry)

struct Guard {
	unsigned *held;

	explicit ALWAYS Guard(unsigned *h) : held(h)
	{
		COUNT(Guard);
		++*held;
	}
	ALWAYS ~Guard()
	{
		release();
	}
	ALWAYS void release()
	{
		COUNT(release);
		--*held;
	}
};

static unsigned held;

static ALWAYS unsigned risky(unsigned x)
{
	COUNT(risky);
	if (x % 5 == 4)
		throw x;
	if (x % 11 == 10)
		throw std::runtime_error("eleven");
	return x * 2;
}

static ALWAYS unsigned guarded(unsigned x)
{
	Guard g(&held);

	COUNT(guarded);
	return risky(x) + risky(x + 1);
}

static inline unsigned retry(unsigned x)
{
	COUNT(retry);
	for (;;) {
		try {
			return guarded(x);
		} catch (unsigned y) {
			x = y + 2;
		}
	}
}

APART unsigned run(unsigned x)
{
	try {
		unsigned y = retry(x);

		Guard g(&held);
		return y + guarded(y);
	} catch (const std::exception &) {
		return 1;
	} catch (unsigned) {
		return 2;
	}
}

int main()
{
	for (unsigned i = 0; i < 150; i++)
		sink = run(i) + held;
	SHOW(risky);
	SHOW(guarded);
	SHOW(release);
	SHOW(Guard);
	SHOW(retry);
}
