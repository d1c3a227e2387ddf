/* SPDX-License-Identifier: MIT */
/* A request ends in a tail call of one of two functions; the second is called once. */
#include "planted.h"

static apart uint32_t answer(uint32_t n)
{
	return compute(n, 100);
}

static apart uint32_t replay_journal(uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 40; i++)
		sum += answer(n + i) + compute(i, 200);
	return sum;
}

static apart uint32_t choose(uint32_t n)
{
	if (n == 321)
		return replay_journal(n);
	return answer(n);
}

static apart uint32_t request(uint32_t n)
{
	return choose(compute(n, 10) ? n : 0);
}

int main(void)
{
	planted("request", "replay_journal");
	for (uint32_t i = 0; i < 400; i++)
		used(request(i));
	return 0;
}
