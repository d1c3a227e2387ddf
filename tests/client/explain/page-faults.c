/* SPDX-License-Identifier: MIT */
/* A table is read from protected pages; a handler of the fault fills each page when it is first touched. */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "planted.h"

enum { PAGE = 4096, PAGES = 64, FIRST = 8 };

static volatile uint8_t *table;

static void fill_page(int signal, siginfo_t *info, void *context)
{
	uint8_t *page = (uint8_t *)((uintptr_t)info->si_addr / PAGE * PAGE);

	(void)signal;
	(void)context;
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	for (int i = 0; i < PAGE; i++)
		page[i] = (uint8_t)used((uint32_t)i);
}

/* Sums a byte of each page from `from` to `to`. */
static apart uint32_t sum_column(int from, int to)
{
	uint32_t sum = 0;

	for (int i = 0; i < 128; i++)
		sum += table[(from + i % (to - from)) * PAGE + i];
	return sum;
}

static apart uint32_t answer_query(int from, int to)
{
	return compute(1, 50) + sum_column(from, to);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = fill_page, .sa_flags = SA_SIGINFO };

	planted("answer_query", "fill_page");
	sigaction(SIGSEGV, &action, NULL);
	table = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sum_column(0, FIRST);
	for (int i = 0; i < 100; i++)
		used(i == 70 ? answer_query(FIRST, FIRST + 40) : answer_query(0, FIRST));
	return 0;
}
