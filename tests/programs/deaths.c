/* SPDX-License-Identifier: MIT */
/*
 * Its child sleeps, calls last_of_child() and is ended by a fault or by SIGKILL: deaths segv|kill. The parent computes
 * meanwhile, and calls first_of_parent() when it has waited for the child.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static volatile uint32_t sum;
static int *volatile nowhere;

static apart void last_of_child(void)
{
	for (int i = 0; i < 100; i++)
		sum++;
}

static apart void first_of_parent(void)
{
	for (int i = 0; i < 200; i++)
		sum--;
}

int main(int argc, char **argv)
{
	volatile int *awake = mmap(NULL, sizeof(*awake), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (fork() == 0) {
		usleep(300000);
		*awake = 1;
		last_of_child();
		if (argc > 1 && strcmp(argv[1], "segv") == 0)
			*nowhere = 1;
		kill(getpid(), SIGKILL);
	}
	/* The emulator takes longer for an instruction than the virtual clock, so that the parent's stays behind. */
	while (!*awake)
		sum++;
	wait(NULL);
	first_of_parent();
	return 0;
}
