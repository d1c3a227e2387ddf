/* SPDX-License-Identifier: MIT */
/* longjmp over several frames, and siglongjmp out of a signal handler and out of a fault. */
#include <setjmp.h>
#include <signal.h>

#include "program.h"

static jmp_buf out;
static sigjmp_buf recovered;

static apart unsigned down(unsigned depth)
{
	if (depth == 0)
		longjmp(out, 1);
	return depth > 1000 ? depth : down(depth - 1) + 1;
}

static void on_signal(int sig)
{
	siglongjmp(recovered, sig);
}

static apart uint64_t fault(volatile uint64_t *at)
{
	return *at + 1;
}

int main(int argc, char **argv)
{
	volatile uint64_t v = 0;

	signal(SIGUSR1, on_signal);
	signal(SIGSEGV, on_signal);
	for (volatile unsigned long round = size_of(argc, argv, 200); round; round--) {
		if (setjmp(out) == 0)
			down((unsigned)round % 40);
		v += round;
		if (sigsetjmp(recovered, 1) == 0)
			raise(SIGUSR1);
		if (sigsetjmp(recovered, 1) == 0)
			v += fault((volatile uint64_t *)8);
	}
	return result(v);
}
