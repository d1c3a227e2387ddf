/* SPDX-License-Identifier: MIT */
/* More trace than a ring buffer holds: functions returned to at the end were entered before the trace begins. */
#include "case.h"

apart unsigned busy(unsigned n)
{
	unsigned v = n;

	/* Each call adds trace. */
	for (unsigned i = 0; i < 40000; i++) {
		v = v * 1664525 + 1013904223;
		if (v >> 31)
			v += used(i);
		if (v >> 30 & 1)
			v ^= used(i);
	}
	return v;
}

apart unsigned deep(unsigned n)
{
	return n ? deep(n - 1) + used(n) : busy(n);
}

apart unsigned back_and_forth(unsigned n)
{
	return deep(n) + deep(n / 2);
}

int main(void)
{
	return done(back_and_forth(40));
}
