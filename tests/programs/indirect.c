/* SPDX-License-Identifier: MIT */
/* Indirect calls through a table, a switch that becomes a jump table, calls through a pointer that changes. */
#include "program.h"

typedef uint32_t (*op)(uint32_t);

static apart uint32_t add(uint32_t v)
{
	return v + 0x9e3779b9u;
}

static apart uint32_t rotate(uint32_t v)
{
	return v << 7 | v >> 25;
}

static apart uint32_t mix(uint32_t v)
{
	return (v ^ v >> 15) * 0x2c1b3c6du;
}

static apart uint32_t choose(uint32_t v)
{
	switch (v % 9) {
	case 0:
		return v + 1;
	case 1:
		return v * 3;
	case 2:
		return v ^ 0x55555555u;
	case 3:
		return ~v;
	case 4:
		return v >> 3;
	case 5:
		return v * v;
	case 6:
		return v - 77;
	case 7:
		return v | 0x10101u;
	default:
		return v + 13;
	}
}

static const op table[] = { add, rotate, mix, choose };

int main(int argc, char **argv)
{
	uint32_t v = 12345, state = 1;

	for (unsigned long left = size_of(argc, argv, 15000); left; left--)
		v = table[next_random(&state) >> 9 & 3](v);
	return result(v);
}
