/* SPDX-License-Identifier: MIT */
/*
 * Signals: nested handlers, several at once, an alternate stack, siglongjmp out of a handler, a handler that changes
 * the address to resume at.
 */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "case.h"

static volatile sig_atomic_t seen, depth;
static sigjmp_buf out;

apart void within(unsigned n)
{
	if (n)
		within(n - 1);
	seen += (int)used(n);
}

static void on_first(int sig)
{
	(void)sig;
	within(2);
	if (depth++ < 2)
		raise(SIGUSR2);
	within(1);
}

static void on_second(int sig)
{
	(void)sig;
	within(3);
}

static void on_out(int sig)
{
	(void)sig;
	within(1);
	siglongjmp(out, 1);
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig;
	(void)info;
	within(1);
	uc->uc_mcontext.pc += 4;
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(sig, &action, NULL);
}

apart unsigned jumped(unsigned n)
{
	volatile unsigned v = n;

	if (sigsetjmp(out, 1) == 0)
		raise(SIGHUP);
	else
		v += 3;
	return v;
}

apart unsigned both(void)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, &old);
	raise(SIGUSR1);
	raise(SIGUSR2);
	raise(SIGWINCH);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return used(1);
}

apart unsigned skipped(unsigned n)
{
	__asm__ volatile("brk #1" : : : "memory");
	return used(n) + 1;
}

int main(void)
{
	static char stack[1 << 16];
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	unsigned sum = 0;

	sigaltstack(&other, NULL);
	handle(SIGUSR1, on_first, 0);
	handle(SIGUSR2, on_second, SA_ONSTACK);
	handle(SIGWINCH, on_second, 0);
	handle(SIGHUP, on_out, SA_ONSTACK);
	sigaction(SIGTRAP, &trap, NULL);
	for (unsigned i = 0; i < 3; i++) {
		depth = 0;
		raise(SIGUSR1);
		sum += jumped(i) + both() + skipped(i);
	}
	return done(sum + (unsigned)seen);
}
