/* SPDX-License-Identifier: MIT */
/* The first conversion loads the tables. */
#include <pthread.h>

#include "planted.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t tables[512];

static void load_tables(void)
{
	for (uint32_t i = 0; i < 512; i++)
		tables[i] = compute(i, 40);
}

static apart uint32_t convert(uint32_t n)
{
	pthread_once(&once, load_tables);
	return compute(tables[n % 512], 100);
}

int main(void)
{
	planted("convert", "load_tables");
	for (uint32_t i = 0; i < 100; i++)
		used(convert(i));
	return 0;
}
