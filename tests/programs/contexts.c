/* SPDX-License-Identifier: MIT */
/*
 * Signals and stacks, as triggers meet them. Prints a line; after a line of input it plays, and prints how many
 * events there were; it ends after another line.
 *
 * usage: contexts signals      signals that interrupt running code, and faults
 */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "program.h"

static volatile sig_atomic_t alarms;
static volatile int sum;
static int *volatile nowhere;
static sigjmp_buf back;

static void on_alarm(int number)
{
	(void)number;
	alarms++;
}

static void on_fault(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void set_timer(long us)
{
	const struct itimerval timer = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &timer, NULL);
}

static void play_signals(void)
{
	volatile int faults = 0;

	set_timer(50000);
	while (alarms < 10)
		sum++;
	set_timer(0);
	for (volatile int i = 0; i < 5; i++)
		if (!sigsetjmp(back, 1)) {
			faults++;
			*nowhere = 1;
		}
	printf("%d %d\n", (int)alarms, faults);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	signal(SIGALRM, on_alarm);
	signal(SIGSEGV, on_fault);
	puts("ready");
	fflush(stdout);
	getchar();
	if (strcmp(what, "signals") == 0)
		play_signals();
	fflush(stdout);
	getchar();
	return 0;
}
