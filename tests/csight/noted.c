/* SPDX-License-Identifier: MIT */
/*
 * A traced program that makes notes, with the writer of libcsight alone (see open-alone.c).
 * noted calls|threads|fork|crash|hostile N: prints what it did, then waits for a line.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/csight/csight.h"

static struct csight *handle;
static volatile unsigned sum;

__attribute__((noinline)) static void work(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sum += i * n;
}

__attribute__((noinline)) static void request(unsigned i)
{
	struct csight_span span;

	csight_span_begin(handle, &span, "request");
	work(100 + i);
	csight_note(handle, "step", i);
	work(200);
	csight_span_end(handle, &span, 1000 + i);
}

static void *thread(void *data)
{
	unsigned n = (unsigned)(uintptr_t)data;

	for (unsigned i = 0; i < n; i++)
		request(i);
	return NULL;
}

static void run_threads(unsigned n)
{
	pthread_t threads[4];

	for (size_t i = 0; i < ELEMENTS(threads); i++)
		pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)n);
	for (size_t i = 0; i < ELEMENTS(threads); i++)
		pthread_join(threads[i], NULL);
}

/* The child makes none in its parent's memory, and may make its own. */
static void run_fork(void)
{
	pid_t child;

	csight_note(handle, "parent", 1);
	child = fork();
	if (child == 0)
		_exit(csight_note(handle, "child", 2) == -ECHILD ? 0 : 1);
	waitpid(child, (int *)&sum, 0);
	csight_note(handle, "status", sum);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	const char *what = argc > 1 ? argv[1] : "";
	struct csight_span span;

	if (csight_open(NULL, &handle) < 0 || csight_notes_enable(handle) < 0)
		return 2;
	/* csightd has the memory, and has armed it, before the first note. */
	for (int i = 0; i < 2000 && csight_note(handle, "first", 0) != 1; i++)
		usleep(10000);
	if (strcmp(what, "hostile") == 0)
		csight_note(handle,
			    "\033[31m\"\\\xff,</"
			    "script>\n0123456789012345678901234567890123456789012345678901234567890123456789",
			    INT64_MIN);
	else if (strcmp(what, "threads") == 0)
		run_threads(n);
	else if (strcmp(what, "fork") == 0)
		run_fork();
	else
		for (unsigned i = 0; i < n; i++)
			request(i);
	if (strcmp(what, "crash") == 0) {
		csight_span_begin(handle, &span, "last");
		csight_note(handle, "before the crash", 7);
		raise(SIGSEGV);
	}
	printf("ready\n");
	fflush(stdout);
	return getchar() == EOF;
}
