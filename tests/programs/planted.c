/* SPDX-License-Identifier: MIT */
/*
 * Plants events for triggers of real trace units, and counts them itself. Waits for a line on standard input, plants,
 * prints what it planted, waits again, and ends.
 *
 * usage: planted [storm SECONDS | sleeps N | signals N | pairs N NS | exit STATUS | crash | abort | grow]
 *
 * Prints: calls of marked(); calls of request(), of which as many returned, and of these at least and at most as many
 * were longer than LIMIT by its own clock; the same for sleeps; signals. A call is at least as long as what it measures
 * within, and at most as long as what its caller measures.
 *
 * sleeps: N times a long sleep and a short one. Prints how many were made to be long, and how many were so by its own
 * clock.
 *
 * signals: N calls of marked() and of request(), while a timer sends signals, some of whose handlers call marked(),
 * too. Prints the calls of marked(); those of request(); the signals, and how many of them interrupted marked() or
 * request() before the first instruction.
 *
 * pairs: N times a call of marked() on CPU 0, then a call of answered() and a signal in another thread on CPU 1; it
 * sleeps NS after each of the calls. Prints the calls of either and the signals.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "program.h"

enum { THREADS = 4, ROUNDS = 250, LIMIT_NS = 4000000, LONG_NS = 5000000, SLEEP_NS = 6000000, SHORT_SLEEP_NS = 100000 };
enum { PAUSE_NS = 300000, TIMER_US = 500 };

static _Atomic unsigned long marks, requests, returned, least, most, sleeps_least, sleeps_most, signals;
static _Atomic unsigned long at_entry, answers;
static _Thread_local jmp_buf back;
static volatile uint64_t sink;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

apart void marked(unsigned n)
{
	sink += n;
	marks++;
}

static apart void compute(uint64_t ns)
{
	uint64_t end = now() + ns;

	do
		sink++;
	while (now() < end);
}

/* Measures the time within. */
apart uint64_t request(uint64_t ns, unsigned depth, int jump)
{
	uint64_t begin = now(), within = 0;

	requests++;
	if (depth)
		within = request(ns, depth - 1, jump);
	else if (ns)
		compute(ns);
	if (jump)
		longjmp(back, 1);
	if (now() - begin >= LIMIT_NS)
		least++;
	return within + 1;
}

static void call(uint64_t ns, unsigned depth)
{
	uint64_t begin = now();

	request(ns, depth, 0);
	/* Each of a recursion is. */
	if (now() - begin >= LIMIT_NS)
		most += depth + 1;
	returned += depth + 1;
}

static apart void leave_calls(void)
{
	if (setjmp(back) == 0)
		request(0, 1, 1);
}

static void rest(uint64_t ns)
{
	const struct timespec t = { 0, (long)ns };
	uint64_t begin = now();

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	sleeps_least += ns >= LIMIT_NS;
	sleeps_most += now() - begin >= LIMIT_NS;
}

static void sleep_often(unsigned long n)
{
	for (unsigned long i = 0; i < 2 * n; i++)
		rest(i % 2 ? SLEEP_NS : SHORT_SLEEP_NS);
	printf("%lu %lu\n", (unsigned long)sleeps_least, (unsigned long)sleeps_most);
}

static void *plant(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < ROUNDS; i++) {
		marked(i);
		call(i % 10 == 0 ? LONG_NS : 0, i % 7 == 0 ? 2 : 0);
		if (i % 50 == 25)
			leave_calls();
		rest(i % 25 == 0 ? SLEEP_NS : SHORT_SLEEP_NS);
		if (i % 50 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}

static void on_signal(int number)
{
	signals += number == SIGUSR1;
}

static void storm(unsigned long seconds)
{
	uint64_t end = now() + seconds * 1000000000, others = 0;

	while (now() < end) {
		marked(1);
		others++;
	}
	printf("%lu %llu\n", (unsigned long)marks, (unsigned long long)others);
}

static void on_timer(int number, siginfo_t *info, void *context)
{
	uint64_t pc = ((ucontext_t *)context)->uc_mcontext.pc;

	(void)number;
	(void)info;
	signals++;
	at_entry += pc == (uintptr_t)marked || pc == (uintptr_t)request;
	if (signals % 4 == 0)
		marked((unsigned)signals);
}

static void call_beside_signals(unsigned long n)
{
	const struct sigaction action = { .sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART };
	const struct itimerval often = { { 0, TIMER_US }, { 0, TIMER_US } }, never = { 0 };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < n; i++) {
		marked(i);
		request(0, 0, 0);
		/* More calls than the kernel's events can watch would not all be counted. */
		compute(PAUSE_NS);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%lu %lu %lu %lu\n", (unsigned long)marks, (unsigned long)requests, (unsigned long)signals,
	       (unsigned long)at_entry);
}

apart void answered(unsigned n)
{
	sink += n;
	answers++;
}

static sem_t asked, done;
static unsigned long pairs;
static long between_ns;

static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void sleep_between(void)
{
	const struct timespec t = { 0, between_ns };

	if (between_ns)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void *answer(void *unused)
{
	(void)unused;
	move_to(1);
	for (unsigned i = 0; i < pairs; i++) {
		sem_wait(&asked);
		answered(i);
		raise(SIGUSR1);
		sleep_between();
		sem_post(&done);
	}
	return NULL;
}

static void call_in_pairs(void)
{
	pthread_t t;

	sem_init(&asked, 0, 0);
	sem_init(&done, 0, 0);
	move_to(0);
	if (pthread_create(&t, NULL, answer, NULL) != 0)
		return;
	for (unsigned i = 0; i < pairs; i++) {
		marked(i);
		sleep_between();
		sem_post(&asked);
		sem_wait(&done);
	}
	pthread_join(t, NULL);
	printf("%lu %lu %lu\n", (unsigned long)marks, (unsigned long)answers, (unsigned long)signals);
}

static apart void grow(size_t size)
{
	char *more = malloc(size);

	memset(more, 1, size);
	sink += (uint64_t)more[size - 1];
}

static void wait_for_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t t;

	signal(SIGUSR1, on_signal);
	puts("ready");
	fflush(stdout);
	wait_for_line();
	if (strcmp(how, "storm") == 0) {
		storm(argc > 2 ? strtoul(argv[2], NULL, 0) : 1);
	} else if (strcmp(how, "sleeps") == 0) {
		sleep_often(argc > 2 ? strtoul(argv[2], NULL, 0) : 1);
	} else if (strcmp(how, "signals") == 0) {
		call_beside_signals(argc > 2 ? strtoul(argv[2], NULL, 0) : 1);
	} else if (strcmp(how, "pairs") == 0) {
		pairs = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
		between_ns = argc > 3 ? strtol(argv[3], NULL, 0) : 0;
		call_in_pairs();
	} else if (!*how) {
		for (unsigned i = 1; i < THREADS; i++) {
			if (pthread_create(&t, NULL, plant, NULL) != 0)
				return 1;
			pthread_join(t, NULL);
		}
		plant(NULL);
		printf("%lu %lu %lu %lu %lu %lu %lu %lu\n", marks, requests, returned, least, most, sleeps_least,
		       sleeps_most, signals);
	} else {
		marked(1);
	}
	fflush(stdout);
	if (!*how || strcmp(how, "storm") == 0 || strcmp(how, "sleeps") == 0 || strcmp(how, "signals") == 0 ||
	    strcmp(how, "pairs") == 0)
		wait_for_line();
	if (strcmp(how, "crash") == 0)
		*(volatile int *)NULL = 1;
	if (strcmp(how, "abort") == 0)
		abort();
	while (strcmp(how, "grow") == 0)
		grow(1 << 20);
	return argc > 2 ? atoi(argv[2]) : 0;
}
