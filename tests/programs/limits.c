/* SPDX-License-Identifier: MIT */
/*
 * Uses up what the emulator has little of. Prints what it finds.
 *
 * usage: limits threads N   N threads, of which each creates the next one and ends
 *        limits sockets     closes all descriptors, and opens sockets at their numbers: how many receive something,
 *                           or are closed in a child
 *        limits files       300 threads that wait, and all descriptors of 1024: 1 if at most 24 are missing
 *        limits low         a limit of 256: how many more descriptors below 100 a child has
 *        limits closes      closes all descriptors; then a child prints lines before and after it works, and waits
 * after each
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

enum { STACK = 64 << 10, FILES = 2048 };

static pthread_attr_t small;
static sem_t done;
static unsigned long left;

static void *create_next(void *unused)
{
	pthread_t thread;

	if (--left)
		pthread_create(&thread, &small, create_next, unused);
	else
		sem_post(&done);
	return NULL;
}

static int use_threads(unsigned long n)
{
	left = n + 1;
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	create_next(NULL);
	sem_wait(&done);
	return result(left);
}

/* As daemons do when they start. */
static void close_all(void)
{
	const struct rlimit limit = { FILES, FILES };

	setrlimit(RLIMIT_NOFILE, &limit);
	for (int i = 3; i < FILES; i++)
		close(i);
}

/* Runs code of a file that has not been mapped before. */
static void run_file(void)
{
	static const uint32_t code[1024] = { 0xd65f03c0 /* ret */ };
	FILE *f = tmpfile();
	void *mapped;

	if (!f || fwrite(code, sizeof(code), 1, f) != 1 || fflush(f) != 0)
		exit(1);
	mapped = mmap(NULL, sizeof(code), PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
	((void (*)(void))mapped)();
}

/* How many of these descriptors are closed. */
static unsigned missing(unsigned from, unsigned to)
{
	unsigned n = 0;

	for (unsigned i = from; i < to; i++)
		n += fcntl((int)i, F_GETFD) < 0;
	return n;
}

static int use_sockets(void)
{
	int pairs[FILES / 2 - 100][2];
	unsigned n = 0, received = 0;
	int status;
	char byte;

	close_all();
	while (n < sizeof(pairs) / sizeof(*pairs) && socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[n]) == 0)
		n++;
	run_file();
	for (unsigned i = 0; i < 2 * n; i++)
		received += recv(pairs[i / 2][i % 2], &byte, 1, MSG_DONTWAIT) >= 0;
	if (fork() == 0)
		exit((int)missing(3, 2 * n + 3));
	wait(&status);
	return result(n ? received + (unsigned)status : 9);
}

static void *wait_always(void *unused)
{
	pause();
	return unused;
}

static int use_files(void)
{
	const struct rlimit limit = { 1024, 1024 };
	pthread_t thread;
	unsigned n = 0;

	setrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned i = 0; i < 300; i++)
		if (pthread_create(&thread, &small, wait_always, NULL))
			return 1;
	usleep(100000);
	while (open("/dev/null", O_RDONLY) >= 0)
		n++;
	return result(n >= 1000);
}

static int lower_limit(void)
{
	const struct rlimit limit = { 256, 256 };
	unsigned before = missing(3, 100);
	int status;

	setrlimit(RLIMIT_NOFILE, &limit);
	if (fork() == 0)
		exit((int)(before - missing(3, 100)));
	wait(&status);
	return result((unsigned)status);
}

static apart int work_in_child(void)
{
	uint32_t state = 1;

	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 1000; i++)
		next_random(&state);
	printf("work done: %u\n", state);
	fflush(stdout);
	getchar();
	return 0;
}

static int close_and_fork(void)
{
	int status;

	close_all();
	if (fork() == 0)
		exit(work_in_child());
	wait(&status);
	return status;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	if (argc > 2 && strcmp(what, "threads") == 0)
		return use_threads(strtoul(argv[2], NULL, 0));
	if (strcmp(what, "sockets") == 0)
		return use_sockets();
	if (strcmp(what, "files") == 0)
		return use_files();
	if (strcmp(what, "low") == 0)
		return lower_limit();
	if (strcmp(what, "closes") == 0)
		return close_and_fork();
	return 1;
}
