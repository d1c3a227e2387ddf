/* SPDX-License-Identifier: MIT */
/*
 * Runs a program and holds it twice: after its exec, so that it can be armed before its first instruction, and at its
 * end, when the output that it prints blocks in a full pipe.
 *
 *   held PROGRAM [ARGUMENT...]
 *
 * Prints the process number. On the first line of input it lets the program run, and prints "ended" when the program
 * blocks in its output; on the second it lets the program end, and prints the exit status. With "now" as the only
 * argument it prints the virtual counter.
 */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/util.h"

enum { PIPE_SIZE = 65536, STDOUT = 1, LOOK_US = 20000 };

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static uint64_t counter(void)
{
	uint64_t v = 0;

#ifdef __aarch64__
	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(v));
#endif
	return v;
}

static bool next_line(void)
{
	char line[64];

	fflush(stdout);
	return fgets(line, sizeof(line), stdin);
}

/* True if the process is in write(1, …), system call 64. */
static bool prints(pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long number = 0, fd = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	f = fopen(path, "re");
	return f && fscanf(f, "%lu %lx", &number, &fd) == 2 && number == 64 && fd == STDOUT;
}

static bool is_gone(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid;
}

int main(int argc, char **argv)
{
	static char full[PIPE_SIZE];
	int ends[2], status;
	pid_t pid;

	if (argc == 2 && strcmp(argv[1], "now") == 0) {
		printf("%" PRIu64 "\n", counter());
		return 0;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: held PROGRAM [ARGUMENT...] | now\n");
		return 2;
	}
	check(pipe(ends) == 0 && write(ends[1], full, sizeof(full)) == PIPE_SIZE, "pipe");
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT);
		close(ends[0]);
		close(ends[1]);
		dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
		check(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0, "ptrace");
		execv(argv[1], argv + 1);
		check(false, argv[1]);
	}
	check(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), argv[1]);
	check(ptrace(PTRACE_DETACH, pid, 0, SIGSTOP) == 0, "detach");
	printf("%d\n", (int)pid);
	if (!next_line())
		return 1;
	kill(pid, SIGCONT);
	while (!prints(pid) && !is_gone(pid))
		usleep(LOOK_US);
	printf("ended\n");
	next_line();
	for (size_t left = PIPE_SIZE; left;) {
		ssize_t n = read(ends[0], full, left);

		check(n > 0, "read");
		left -= (size_t)n;
	}
	check(waitpid(pid, &status, 0) == pid, "wait");
	printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}
