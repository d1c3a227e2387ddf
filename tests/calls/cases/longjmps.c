/* SPDX-License-Identifier: MIT */
/*
 * longjmp: over one frame and many, in a recursion to the innermost and to an outer frame, and by the compiler's
 * builtin.
 */
#include <setjmp.h>

#include "case.h"

static jmp_buf one, outer[8];
static unsigned rounds;

apart void away(jmp_buf to, unsigned n)
{
	if (used(n) == 0)
		longjmp(to, 1);
	if (n)
		away(to, n - 1);
	used(n);
}

apart unsigned over(unsigned n)
{
	volatile unsigned v = n;

	if (setjmp(one) == 0)
		away(one, n);
	else
		v += 2;
	return v;
}

/* Each frame of the recursion has called setjmp. */
apart unsigned nested(unsigned n)
{
	volatile unsigned v = n;

	if (setjmp(outer[n]) == 0) {
		if (n)
			v += nested(n - 1);
		else
			away(outer[0], 3);
	} else {
		v += 5;
		if (n < 7 && rounds++ < 3)
			longjmp(outer[n + 1], 1);
	}
	return v + used(1);
}

/* Only the first frame of the recursion has. */
apart unsigned ready_first(unsigned n, jmp_buf to)
{
	jmp_buf own;
	volatile unsigned v = n;

	if (!to) {
		if (setjmp(own) == 0)
			return ready_first(n, own);
		return v + 1;
	}
	if (n == 0)
		longjmp(to, 1);
	return ready_first(n - 1, to) + used(1);
}

static void *inline_buffer[5];

apart void jump_inline(unsigned n)
{
	if (used(n) == 0)
		__builtin_longjmp(inline_buffer, 1);
	if (n)
		jump_inline(n - 1);
	used(n);
}

apart unsigned inlined(unsigned n)
{
	if (__builtin_setjmp(inline_buffer) == 0)
		jump_inline(n);
	return used(n);
}

int main(void)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < 6; i++)
		sum += over(i) + ready_first(i, NULL) + inlined(i);
	rounds = 0;
	sum += nested(6);
	return done(sum);
}
