/* SPDX-License-Identifier: MIT */
/* Commands go through a table of handlers, each of which is the last that its caller does. One sums up everything. */
#include <string.h>

#include "planted.h"

#define SLOTS 256

struct session {
	uint32_t commands;
	uint32_t hits;
};

static uint32_t keys[SLOTS], values[SLOTS];

static apart uint32_t slot_of(uint32_t key)
{
	return compute(key, 25) % SLOTS;
}

static apart uint32_t do_get(struct session *session, uint32_t key)
{
	uint32_t slot = slot_of(key);

	session->hits += keys[slot] == key;
	return values[slot];
}

static apart uint32_t do_set(struct session *session, uint32_t key)
{
	uint32_t slot = slot_of(key);

	keys[slot] = key;
	return values[slot] = session->commands;
}

static apart uint32_t do_ping(struct session *session, uint32_t key)
{
	return slot_of(session->commands ^ key);
}

static apart uint32_t do_delete(struct session *session, uint32_t key)
{
	(void)do_get(session, key);
	return do_set(session, 0);
}

static apart uint32_t below(uint32_t limit)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		count += used(values[i]) < limit;
	return count;
}

static apart uint32_t do_stats(struct session *session, uint32_t key)
{
	uint32_t histogram[24];

	for (uint32_t i = 0; i < 24; i++)
		histogram[i] = below(i * 10);
	return histogram[key % 24] + slot_of(session->hits);
}

typedef uint32_t handler(struct session *session, uint32_t key);
static handler *const handlers[] = { do_get, do_set, do_ping, do_delete, do_stats };

static apart uint32_t run_command(struct session *session, uint32_t op, uint32_t key)
{
	session->commands++;
	return handlers[op](session, key);
}

int main(void)
{
	struct session session = { 0 };
	uint32_t sum = 0;

	planted("run_command", "do_stats");
	for (uint32_t i = 0; i < 320; i++)
		sum += run_command(&session, i == 201 ? 4 : (i * 5 + i / 7) % 4, i % 40);
	used(sum);
	return 0;
}
