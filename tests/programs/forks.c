/* SPDX-License-Identifier: MIT */
/* Child processes that work, fork and exit, while the parent works and then waits for them. */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static apart uint32_t work(uint32_t v)
{
	for (int i = 0; i < 4000; i++)
		v = v % 5 ? v * 7 + 1 : v >> 1;
	return v;
}

int main(int argc, char **argv)
{
	uint32_t v = 3;

	for (unsigned long round = size_of(argc, argv, 3); round; round--) {
		pid_t child = fork();

		if (child == 0) {
			pid_t grandchild = fork();

			v = work(v + 1);
			if (grandchild == 0)
				_exit((int)(work(v) & 1));
			waitpid(grandchild, NULL, 0);
			_exit((int)(v & 1));
		}
		v = work(v);
		waitpid(child, NULL, 0);
	}
	return result(v);
}
