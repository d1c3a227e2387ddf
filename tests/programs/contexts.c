/* SPDX-License-Identifier: MIT */
/*
 * Signals and stacks, as triggers meet them. Prints a line; after a line of input it plays, and prints how many
 * events there were; it ends after another line.
 *
 * usage: contexts signals      signals that interrupt running code, and faults
 *        contexts coroutines   3 calls of slow(), and 3 of other(), in coroutines that are left meanwhile
 *        contexts child        a child plays: 3 calls of interrupted(), in each a signal on the parent's signal stack
 */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

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

static ucontext_t scheduler, coroutines[2];

static apart void count_to(int n)
{
	for (int i = 0; i < n; i++)
		sum++;
}

/* Coroutines are left for the scheduler, and for each other. */
static apart void other(void)
{
	count_to(1000);
	swapcontext(&coroutines[1], &coroutines[0]);
	count_to(100000);
}

static apart void slow(void)
{
	count_to(1000);
	swapcontext(&coroutines[0], &scheduler);
	count_to(1000000);
}

static void run_slow(void)
{
	slow();
	swapcontext(&coroutines[0], &coroutines[1]);
}

static void run_other(void)
{
	other();
	swapcontext(&coroutines[1], &scheduler);
}

static apart void begin(int i, void (*body)(void), char *stack, size_t size)
{
	getcontext(&coroutines[i]);
	coroutines[i].uc_stack.ss_sp = stack;
	coroutines[i].uc_stack.ss_size = size;
	makecontext(&coroutines[i], body, 0);
}

static void play_coroutines(void)
{
	enum { STACK = 64 << 10 };
	static char stacks[2][STACK] __attribute__((aligned(16)));

	for (int round = 0; round < 3; round++) {
		begin(0, run_slow, stacks[1], STACK);
		begin(1, run_other, stacks[0], STACK);
		swapcontext(&scheduler, &coroutines[0]);
		swapcontext(&scheduler, &coroutines[1]);
	}
	puts("3");
}

static apart void interrupted(void)
{
	count_to(1000);
	raise(SIGUSR1);
	count_to(100000);
}

static void play_interrupted(void)
{
	for (int i = 0; i < 3; i++)
		interrupted();
	puts("3");
}

/* Memory that is mapped later is above the stack here. */
static void set_signal_stack(void)
{
	enum { SIZE = 64 << 10 };
	stack_t stack = { .ss_size = SIZE };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_ONSTACK };

	stack.ss_sp = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	signal(SIGALRM, on_alarm);
	signal(SIGSEGV, on_fault);
	if (strcmp(what, "child") == 0) {
		set_signal_stack();
		if (fork() != 0) {
			wait(NULL);
			return 0;
		}
	}
	puts("ready");
	fflush(stdout);
	getchar();
	if (strcmp(what, "signals") == 0)
		play_signals();
	if (strcmp(what, "coroutines") == 0)
		play_coroutines();
	if (strcmp(what, "child") == 0)
		play_interrupted();
	fflush(stdout);
	getchar();
	return 0;
}
