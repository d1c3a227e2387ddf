/* SPDX-License-Identifier: MIT */
/* System calls: by functions of the library, direct, failing, and interrupted by a signal. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "case.h"

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

apart unsigned directly(void)
{
	register long number __asm__("x8") = SYS_getppid;
	register long ret __asm__("x0");

	__asm__ volatile("svc #0" : "=r"(ret) : "r"(number) : "memory");
	return ret > 0;
}

apart unsigned failing(void)
{
	return read(-1, NULL, 0) < 0 && errno == EBADF;
}

apart unsigned interrupted(void)
{
	const struct itimerval soon = { { 0, 0 }, { 0, 2000 } };
	const struct timespec nap = { 5, 0 };

	setitimer(ITIMER_REAL, &soon, NULL);
	return nanosleep(&nap, NULL) < 0;
}

int main(void)
{
	struct sigaction action;
	struct timespec now;
	unsigned sum = 0;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	for (unsigned i = 0; i < 3; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += directly() + failing() + interrupted();
	}
	return done(sum + (unsigned)alarms);
}
