/* SPDX-License-Identifier: MIT */
/* Jumps that are not calls: in place of a return, by jump tables, to labels by address; functions in several parts. */
#include "case.h"

apart unsigned last(unsigned n)
{
	return used(n) + 7;
}

apart unsigned third(unsigned n)
{
	return n & 1 ? last(n + 1) : last(n * 2);
}

static unsigned (*volatile by_pointer)(unsigned) = third;

/* A tail call through a register, with optimisation. */
apart unsigned second(unsigned n)
{
	return by_pointer(n + 2);
}

apart unsigned first(unsigned n)
{
	return second(n + 1);
}

apart unsigned table(unsigned n)
{
	switch (used(n)) {
	case 0:
		return last(1);
	case 1:
		n = third(2) * 3;
		break;
	case 2:
		n = last(3) + 5;
		break;
	case 3:
		return first(4);
	case 4:
		n = used(n) ^ 9;
		break;
	case 5:
		n = third(6) - 1;
		break;
	case 6:
		n = last(n) + n;
		break;
	case 7:
		return table(6);
	default:
		n = 0;
	}
	return last(n) + 1;
}

apart unsigned machine(const unsigned char *code)
{
	static const void *const steps[] = { &&stop, &&add, &&twice, &&call };
	unsigned v = 1;

	goto *steps[*code];
add:
	v += 3;
	goto *steps[*++code];
twice:
	v = used(v * 2);
	goto *steps[*++code];
call:
	v += last(v);
	goto *steps[*++code];
stop:
	return v;
}

apart __attribute__((cold)) unsigned rare(unsigned n)
{
	return last(n) ^ 5;
}

/* The compiler moves the unlikely part elsewhere. */
apart unsigned parts(unsigned n)
{
	unsigned v = last(n);

	if (__builtin_expect(used(v) % 5 == 0, 0)) {
		v += rare(v);
		v += rare(v + 1);
	}
	return v + last(v);
}

apart unsigned loop_down(unsigned n, unsigned sum)
{
	return n ? loop_down(n - 1, sum + used(n)) : last(sum);
}

int main(void)
{
	static const unsigned char code[] = { 1, 2, 3, 1, 3, 2, 3, 0 };
	unsigned sum = machine(code) + loop_down(20, 0);

	for (unsigned i = 0; i < 9; i++)
		sum += table(i) + first(i) + parts(i);
	return done(sum);
}
