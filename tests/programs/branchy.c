/* SPDX-License-Identifier: MIT */
/* Branches that depend on data: sorting, searching, the Collatz sequence. */
#include "program.h"

enum { COUNT = 256 };
static uint32_t values[COUNT];

static apart void sort(uint32_t *v, int count)
{
	for (int i = 1; i < count; i++) {
		uint32_t x = v[i];
		int j = i - 1;

		while (j >= 0 && v[j] > x) {
			v[j + 1] = v[j];
			j--;
		}
		v[j + 1] = x;
	}
}

static apart int find(const uint32_t *v, int count, uint32_t x)
{
	int low = 0, high = count;

	while (low < high) {
		int mid = (low + high) / 2;

		if (v[mid] < x)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static apart unsigned collatz(uint64_t n)
{
	unsigned steps = 0;

	while (n != 1) {
		n = n & 1 ? n * 3 + 1 : n / 2;
		steps++;
	}
	return steps;
}

int main(int argc, char **argv)
{
	uint32_t state = 7;
	uint64_t v = 0;

	for (unsigned long left = size_of(argc, argv, 4); left; left--) {
		for (int i = 0; i < COUNT; i++)
			values[i] = next_random(&state) % 10000;
		sort(values, COUNT);
		for (int i = 0; i < COUNT; i++)
			v += (uint64_t)find(values, COUNT, next_random(&state) % 10000) + collatz((uint64_t)i + 1);
	}
	return result(v);
}
