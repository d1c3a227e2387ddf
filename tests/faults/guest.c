/* SPDX-License-Identifier: MIT */
/*
 * A target that is mostly idle: some calls, then the same again every 100 ms. With the argument once it ends after the
 * first; with a number it becomes that user at SIGUSR1, and writes a line once it catches this signal.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static uid_t user;

static void become(int number)
{
	(void)number;
	if (setresuid(user, user, user) < 0)
		_exit(3);
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 100000000 };

	if (argc > 1 && strcmp(argv[1], "once") != 0) {
		user = (uid_t)atoi(argv[1]);
		signal(SIGUSR1, become);
		if (write(STDOUT_FILENO, "\n", 1) < 0)
			return 2;
	}
	do {
		for (unsigned i = 0; i < 30; i++)
			turn(i);
		nanosleep(&pause, NULL);
	} while (argc < 2 || user);
	return 0;
}
