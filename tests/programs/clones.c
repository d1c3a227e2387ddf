/* SPDX-License-Identifier: MIT */
/* Functions of which gcc makes clones: reduced (.isra), specialised (.constprop) and split in parts (.part). */
#include "program.h"

#define kept __attribute__((noinline))

struct node {
	uint32_t before[8], value, after[8];
};

static uint32_t table[64];

/* Reads one member: gcc passes that, not the pointer. */
static kept uint32_t read_member(const struct node *n)
{
	uint32_t v = n->value;

	for (int i = 0; i < 5; i++)
		v = v * 31 + table[v % 64];
	return v;
}

/* Is always called with the same power. */
static kept uint32_t raise_power(uint32_t v, int power)
{
	uint32_t r = 1;

	for (int i = 0; i < power; i++)
		r = r * v + table[r % 64];
	return r;
}

/* Its test is inlined, and the rest becomes a part of its own. */
static uint32_t spread_value(uint32_t *v)
{
	uint32_t sum = 0;

	if (!v)
		return 0;
	for (int i = 0; i < 64; i++) {
		table[i] += *v;
		sum += table[(i * 7 + *v) % 64] ^ (uint32_t)i;
	}
	for (int i = 0; i < 64; i++)
		table[(i + sum) % 64] ^= sum;
	return sum;
}

apart uint32_t first_user(uint32_t *v)
{
	return spread_value(v) + 1;
}

apart uint32_t second_user(uint32_t *v)
{
	return spread_value(v) * 3;
}

int main(int argc, char **argv)
{
	unsigned long n = size_of(argc, argv, 100);
	struct node node = { { 0 }, 7, { 0 } };
	uint64_t sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		node.value = (uint32_t)sum;
		sum += read_member(&node);
		sum += raise_power((uint32_t)sum, 9);
		sum += first_user(i % 2 ? &node.value : NULL);
		sum += second_user(i % 4 ? NULL : &node.value);
	}
	return result(sum);
}
