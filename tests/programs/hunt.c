/* SPDX-License-Identifier: MIT */
/*
 * The README's latency hunt: a server that answers made-up requests from a table. One request in ten thousand finds the
 * table too full and rebuilds it first, which is what the hunt has to find.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define apart __attribute__((noinline, noclone))

enum { SLOTS = 8192, REQUESTS_PER_REBUILD = 10000 };

static uint32_t table[SLOTS];
static unsigned entries;

static apart uint32_t hash(uint32_t key)
{
	for (int i = 0; i < 4; i++)
		key = (key ^ key >> 15) * 2246822519u;
	return key;
}

static apart void rebuild_table(void)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		table[hash(i) % SLOTS] = i;
	entries = 0;
}

static apart uint32_t lookup(uint32_t key)
{
	if (++entries == REQUESTS_PER_REBUILD)
		rebuild_table();
	return table[hash(key) % SLOTS];
}

static apart uint32_t parse(uint32_t request)
{
	char text[32];

	snprintf(text, sizeof(text), "%u", request);
	return (uint32_t)strtoul(text, NULL, 10);
}

static apart uint32_t handle_request(uint32_t request)
{
	return lookup(parse(request)) ^ request;
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 25000, sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += handle_request(i * 2654435761u);
	printf("%u\n", sum);
	return 0;
}
