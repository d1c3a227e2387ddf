/* SPDX-License-Identifier: MIT */
/* Ends in the way that its argument names; with a second one, after a line of input. Tests look for the marked lines.
 */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

static volatile int sum;
static int *volatile nowhere;

static apart void count(int n)
{
	sum += n;
}

static apart void segv(int n)
{
	count(n);
	*nowhere = n; /* segv */
	count(n);
}

static inline __attribute__((always_inline)) void store(int *to, int n)
{
	*to = n; /* inlined */
}

static apart void inlined(int n)
{
	count(n);
	store(nowhere, n);
	count(n);
}

static apart void bus(int n)
{
	char name[] = "/tmp/csight-ends-XXXXXX";
	int fd = mkstemp(name);
	char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	unlink(name);
	count(n);
	sum += *(volatile char *)page; /* bus */
	count(n);
}

static apart void ill(int n)
{
	count(n);
	__asm__ volatile("udf #7"); /* ill */
	count(n);
}

static apart void trap(int n)
{
	count(n);
	__asm__ volatile("brk #1"); /* trap */
	count(n);
}

static apart void fpe(int n)
{
	count(n);
	raise(SIGFPE); /* fpe */
	count(n);
}

static apart void aborts(int n)
{
	count(n);
	abort(); /* aborts */
}

static apart void asserts(int n)
{
	count(n);
	assert(n == 1); /* asserts */
	count(n);
}

static apart int deeper(int n)
{
	volatile char room[4096];

	room[n & 4095] = (char)n;
	return n == sum ? 0 : deeper(n + 1) + room[n & 4095];
}

static apart void overflow(int n)
{
	count(deeper(sum + n));
}

static void (*volatile no_function)(void);

static apart void jump(int n)
{
	count(n);
	no_function(); /* jump */
	count(n);
}

static apart void copy(int n)
{
	static const char from[64] = "0123456789";

	count(n);
	memcpy(nowhere, from, 5 + (size_t)n); /* copy */
	count(n);
}

static apart void exits(int n)
{
	count(n);
	exit(3); /* exits */
}

static apart void leaves(int n)
{
	count(n);
	_exit(3);
}

static apart void terminates(int n)
{
	count(n);
	kill(getpid(), SIGTERM); /* terminates */
	count(n);
}

static apart void killed(int n)
{
	count(n);
	kill(getpid(), SIGKILL);
}

static apart void grows(int n)
{
	enum { SIZE = 1 << 20 };

	for (;;) {
		char *more = malloc(SIZE);

		count(n);
		memset(more, n, SIZE); /* grows */
	}
}

static void handle(int signal)
{
	sum += signal;
}

/* A signal that was handled is not the one that ends the program. */
static apart void handled(int n)
{
	signal(SIGUSR1, handle);
	raise(SIGUSR1);
	count(n);
	*nowhere = n; /* handled */
}

static void *in_thread(void *argument)
{
	segv(2);
	return argument;
}

static apart void threaded(int n)
{
	pthread_t thread;

	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	count(n);
}

static void *grow_in_thread(void *argument)
{
	grows(2);
	return argument;
}

static apart void leaderless(int n)
{
	pthread_t thread;

	count(n);
	pthread_create(&thread, NULL, grow_in_thread, NULL);
	pthread_exit(NULL);
}

static const struct {
	const char *name;
	void (*run)(int n);
} ways[] = { { "segv", segv },
	     { "inlined", inlined },
	     { "bus", bus },
	     { "ill", ill },
	     { "trap", trap },
	     { "fpe", fpe },
	     { "aborts", aborts },
	     { "asserts", asserts },
	     { "overflow", overflow },
	     { "jump", jump },
	     { "copy", copy },
	     { "exits", exits },
	     { "leaves", leaves },
	     { "terminates", terminates },
	     { "killed", killed },
	     { "grows", grows },
	     { "leaderless", leaderless },
	     { "handled", handled },
	     { "threaded", threaded } };

int main(int argc, char **argv)
{
	char line[16];

	if (argc > 2 && read(STDIN_FILENO, line, sizeof(line)) < 0)
		return 1;
	for (int i = 0; i < 100; i++)
		count(i);
	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(argv[1], ways[i].name) == 0)
			ways[i].run(argc);
	return argc > 1 ? atoi(argv[1]) : 0;
}
