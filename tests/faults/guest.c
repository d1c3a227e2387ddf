/* SPDX-License-Identifier: MIT */
/* A target that is mostly idle: some calls, then the same again every 100 ms. With an argument, it ends after the
 * first. */
#include <time.h>

#include "tests/programs/program.h"

static volatile unsigned sum;

static apart void leaf(unsigned n)
{
	sum += n;
}

static apart void turn(unsigned n)
{
	for (unsigned i = 0; i < n % 5; i++)
		leaf(i);
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 100000000 };

	(void)argv;
	do {
		for (unsigned i = 0; i < 30; i++)
			turn(i);
		nanosleep(&pause, NULL);
	} while (argc < 2);
	return 0;
}
