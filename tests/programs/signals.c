/* SPDX-License-Identifier: MIT */
/*
 * Signals: raised, delivered by a timer to a busy loop and to a blocked read (which is restarted), nested, two pending
 * at once so that their frames are stacked, and on an alternate stack.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

static volatile sig_atomic_t alarms, users, nested, stacked;
static int wake[2];

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void on_user(int sig)
{
	(void)sig;
	users++;
	if (users % 4 == 0)
		raise(SIGUSR2);
}

static void on_nested(int sig)
{
	(void)sig;
	nested++;
}

static void on_stacked(int sig)
{
	stacked += sig == SIGHUP ? 1 : 100;
}

static void on_wake(int sig)
{
	(void)sig;
	if (write(wake[1], "x", 1) != 1)
		abort();
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(sig, &action, NULL);
}

static apart void two_at_once(void)
{
	sigset_t both, old;

	sigemptyset(&both);
	sigaddset(&both, SIGHUP);
	sigaddset(&both, SIGWINCH);
	pthread_sigmask(SIG_BLOCK, &both, &old);
	raise(SIGHUP);
	raise(SIGWINCH);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static apart void restarted_read(void)
{
	const struct itimerval soon = { { 0, 0 }, { 0, 3000 } };
	char byte;

	/* The read blocks until the handler has written: the signal interrupts it, and the kernel restarts it. */
	setitimer(ITIMER_VIRTUAL, &(struct itimerval){ 0 }, NULL);
	handle(SIGALRM, on_wake, SA_RESTART);
	setitimer(ITIMER_REAL, &soon, NULL);
	if (read(wake[0], &byte, 1) != 1)
		abort();
	handle(SIGALRM, on_alarm, SA_RESTART);
}

static apart uint64_t busy(unsigned n)
{
	uint64_t v = 1;

	for (unsigned i = 0; i < n; i++)
		v = v & 1 ? v * 3 + 1 : v / 2 + i;
	return v;
}

int main(int argc, char **argv)
{
	const struct itimerval often = { { 0, 700 }, { 0, 700 } };
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	uint64_t v = 0;

	if (pipe(wake) < 0)
		return 1;
	handle(SIGALRM, on_alarm, SA_RESTART);
	handle(SIGUSR1, on_user, 0);
	handle(SIGHUP, on_stacked, 0);
	handle(SIGWINCH, on_stacked, 0);
	sigaltstack(&other, NULL);
	handle(SIGUSR2, on_nested, SA_ONSTACK);
	for (unsigned long round = size_of(argc, argv, 8); round; round--) {
		const struct timespec nap = { 0, 1500000 };

		setitimer(ITIMER_REAL, &often, NULL);
		v += busy(8000);
		raise(SIGUSR1);
		v += busy(100);
		two_at_once();
		nanosleep(&nap, NULL); /* interrupted, not restarted */
		setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
		if (round % 4 == 0)
			restarted_read();
	}
	return result(v + (users > 0) + (nested > 0) + (stacked > 0));
}
