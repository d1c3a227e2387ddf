/* SPDX-License-Identifier: MIT */
/*
 * Faults: one that a handler repairs, and ones that a handler leaves by siglongjmp, in a leaf function and in a
 * recursion.
 */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "case.h"

static sigjmp_buf out;
static char *page;
static long size;

apart void mend(void)
{
	mprotect(page, (size_t)size, PROT_READ | PROT_WRITE);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if ((char *)info->si_addr >= page && (char *)info->si_addr < page + size)
		mend();
	else
		siglongjmp(out, 1);
}

apart unsigned touch(volatile char *at)
{
	return used((unsigned)*at) + 1;
}

apart unsigned down(unsigned n, volatile char *at)
{
	return n ? down(n - 1, at) + used(1) : touch(at);
}

apart unsigned survives(unsigned n)
{
	volatile unsigned v = n;

	if (sigsetjmp(out, 1) == 0)
		v += down(n, (volatile char *)8);
	else
		v += 1;
	return v;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	unsigned sum = 0;

	size = sysconf(_SC_PAGESIZE);
	page = mmap(NULL, (size_t)size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	for (unsigned i = 0; i < 4; i++) {
		mprotect(page, (size_t)size, PROT_NONE);
		sum += down(i, page) + survives(i);
	}
	return done(sum);
}
