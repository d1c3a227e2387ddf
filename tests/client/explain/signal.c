/* SPDX-License-Identifier: MIT */
/* Some steps are interrupted by a timer, whose handler does much. */
#include <signal.h>
#include <sys/time.h>

#include "planted.h"

static volatile unsigned ticks;

static void on_tick(int signal)
{
	(void)signal;
	used(compute(2, 50000));
	ticks++;
}

static apart uint32_t mix(uint32_t n)
{
	return compute(n, 700);
}

static apart uint32_t run_step(uint32_t n)
{
	return mix(n) + compute(n, 600);
}

int main(void)
{
	const struct itimerval often = { { 0, 20000 }, { 0, 20000 } };

	planted("run_step", "on_tick");
	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, NULL);
	for (uint32_t i = 0; ticks < 3; i++)
		used(run_step(i));
	return 0;
}
