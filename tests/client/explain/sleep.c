/* SPDX-License-Identifier: MIT */
/* A device that is busy makes one transfer back off. */
#include <time.h>

#include "planted.h"

static apart void back_off(unsigned ms)
{
	const struct timespec moment = { .tv_nsec = (long)ms * 1000 * 1000 };

	nanosleep(&moment, NULL);
}

static apart int is_busy(uint32_t n)
{
	return compute(n, 50) && n % 64 == 40;
}

static apart void transfer(uint32_t n)
{
	if (is_busy(n))
		back_off(30);
	used(compute(n, 400));
}

int main(void)
{
	planted("transfer", "back_off");
	for (uint32_t i = 0; i < 60; i++)
		transfer(i);
	return 0;
}
