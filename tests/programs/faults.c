/* SPDX-License-Identifier: MIT */
/* Faults within a block: a store retried after mprotect, a load that is skipped, an undefined instruction, BRK. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "program.h"

static char *page;
static volatile sig_atomic_t repaired, skipped;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	if (sig == SIGSEGV && (char *)info->si_addr >= page && (char *)info->si_addr < page + 4096) {
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		repaired++;
		return;
	}
	uc->uc_mcontext.pc += 4;
	skipped++;
}

static apart uint64_t store(uint64_t v)
{
	uint64_t a = v * 3, b = a ^ v;

	*(volatile uint64_t *)(page + 8) = a;
	return a + b + *(volatile uint64_t *)(page + 8);
}

static apart uint64_t load_nothing(uint64_t v)
{
	uint64_t got = v, *volatile nowhere = (uint64_t *)16;

	__asm__ volatile("add %0, %0, #1\n\tldr %0, [%1]\n\tadd %0, %0, #2" : "+r"(got) : "r"(nowhere));
	return got;
}

static apart uint64_t undefined(uint64_t v)
{
	__asm__ volatile("add %0, %0, #3\n\tudf #7\n\tadd %0, %0, #4" : "+r"(v));
	return v;
}

static apart uint64_t breakpoint(uint64_t v)
{
	__asm__ volatile("add %0, %0, #5\n\tbrk #1\n\tadd %0, %0, #6" : "+r"(v));
	return v;
}

/* The faulting instruction is the first or the second of its block. */
static apart uint64_t at_target(uint64_t v)
{
	uint64_t *volatile nowhere = (uint64_t *)32;

	__asm__ volatile("b 1f\n1:\tldr xzr, [%1]\n\tadd %0, %0, #1\n\tb 2f\n2:\tadd %0, %0, #1\n\tldr xzr, [%1]"
			 : "+r"(v)
			 : "r"(nowhere));
	return v;
}

/* A call to an unmapped address: the fetch faults, and the handler returns to the caller. */
static void (*volatile nothing)(void) = (void (*)(void))0x40;
static volatile sig_atomic_t fetched;

static void on_fetch(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	if (sig == SIGSEGV && uc->uc_mcontext.pc == 0x40) {
		uc->uc_mcontext.pc = uc->uc_mcontext.regs[30];
		fetched++;
		return;
	}
	on_fault(sig, info, context);
}

int main(int argc, char **argv)
{
	struct sigaction action;
	uint64_t v = 0;

	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(&action, 0, sizeof(action));
	action.sa_flags = SA_SIGINFO;
	action.sa_sigaction = on_fetch;
	sigaction(SIGSEGV, &action, NULL);
	action.sa_sigaction = on_fault;
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	for (unsigned long round = size_of(argc, argv, 150); round; round--) {
		v += store(round);
		mprotect(page, 4096, PROT_READ);
		v += load_nothing(round) + undefined(round) + breakpoint(round) + at_target(round);
		nothing();
	}
	return result(v + (repaired > 0) + (skipped > 0) + (fetched > 0));
}
