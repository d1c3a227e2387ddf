/* SPDX-License-Identifier: MIT */
/* One request in 200 finds the table full, and rebuilds it. */
#include "planted.h"

static unsigned entries;

static apart uint32_t rebuild_table(void)
{
	entries = 0;
	return compute(1, 20000);
}

static apart uint32_t lookup(uint32_t key)
{
	return ++entries == 150 ? rebuild_table() : compute(key, 40);
}

static apart uint32_t handle_request(uint32_t key)
{
	return compute(key, 20) + lookup(key) + compute(key, 30);
}

int main(void)
{
	planted("handle_request", "rebuild_table");
	for (uint32_t i = 0; i < 200; i++)
		used(handle_request(i));
	return 0;
}
