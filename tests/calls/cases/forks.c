/* SPDX-License-Identifier: MIT */
/*
 * A child that resumes in the middle of its parent, and returns from frames that it did not enter; a child of a child.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"

static int generation;

apart unsigned work(unsigned n)
{
	return n ? used(work(n - 1)) + 1 : 0;
}

apart unsigned splits(unsigned n)
{
	unsigned v = work(n);
	pid_t pid;

	if (n > 2)
		return splits(n - 1) + used(v);
	if (generation == 2)
		return v;
	pid = fork();
	if (pid == 0)
		generation++;
	else if (pid > 0)
		waitpid(pid, NULL, 0);
	return v + (pid == 0 ? splits(5) : work(3));
}

int main(void)
{
	unsigned sum = splits(6);

	return generation ? (int)(work(sum % 7) & 1) : done(sum);
}
