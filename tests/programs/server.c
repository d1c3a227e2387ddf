/* SPDX-License-Identifier: MIT */
/* A server that answers made-up requests until it is ended, with pauses: snapshots of it are windows of the same work.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { ENTRIES = 1024 };

static uint32_t keys[ENTRIES], values[ENTRIES];

static apart uint32_t look_up(uint32_t key)
{
	uint32_t at = key * 2654435761u % ENTRIES;

	for (int i = 0; i < 4; i++, at = (at + 1) % ENTRIES)
		if (keys[at] == key)
			return values[at];
	keys[at] = key;
	values[at] = key ^ 0x5555;
	return 0;
}

static apart int parse_request(const char *text, uint32_t *key)
{
	if (strncmp(text, "GET ", 4) != 0)
		return -1;
	*key = (uint32_t)strtoul(text + 4, NULL, 10);
	return 0;
}

static apart int handle_request(const char *text, char *reply, size_t size)
{
	uint32_t key = 0;

	if (parse_request(text, &key) < 0)
		return -1;
	return snprintf(reply, size, "%u %u", look_up(key), planted_work(key));
}

static apart uint32_t serve(uint32_t *state)
{
	char request[32], reply[32];

	snprintf(request, sizeof(request), "GET %u", next_random(state) % 5000);
	return (uint32_t)handle_request(request, reply, sizeof(reply));
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 2000000 };
	unsigned long n = size_of(argc, argv, 20000);
	uint32_t state = (uint32_t)getpid() * 2654435761u | 1, sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		sum += serve(&state);
		if (i % 50 == 0)
			nanosleep(&pause, NULL);
	}
	return result(sum);
}
