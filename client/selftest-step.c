/* SPDX-License-Identifier: MIT */
/* The truth of csight selftest on hardware: each instruction that the known program executes, by single steps. */
#include <errno.h>
#include <fcntl.h>
#include <linux/elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/selftest-log.h"

static bool read_pc(pid_t tid, uint64_t *ret)
{
#if defined(__aarch64__)
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof(regs) };

	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) < 0)
		return false;
	*ret = regs.pc;
	return true;
#elif defined(__x86_64__)
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
		return false;
	*ret = regs.rip;
	return true;
#else
	(void)tid, (void)ret;
	return false;
#endif
}

/* Executes the program in the child process, traced by its parent. */
static void become_program(const char *program, const char *output)
{
	int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(127);
	execl(program, program, (char *)NULL);
	_exit(127);
}

/*
 * Handles a stop of a thread. At a single step, adds the instruction that the thread executes next. A signal postpones
 * that instruction, which is removed: its step is reported again. Returns the signal to deliver, 0 for none, or
 * negative errno.
 */
static int handle_stop(struct selftest_log *log, pid_t tid, int status)
{
	struct selftest_thread *t = selftest_log_thread(log, (uint32_t)tid);
	int signal = WSTOPSIG(status);
	uint64_t pc;

	if (!t || !read_pc(tid, &pc))
		return -EIO;
	if (signal == SIGTRAP && status >> 16 == 0) {
		int rc = selftest_log_add(log, t, pc);

		return rc < 0 ? rc : 0;
	}
	if (signal == SIGTRAP || signal == SIGSTOP)
		return 0;
	if (t->n && t->pcs[t->n - 1] == pc)
		t->n--;
	return signal;
}

static int step_all(struct selftest_log *log, pid_t program)
{
	int status, signal;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (tid == program && (WIFEXITED(status) || WIFSIGNALED(status)))
			return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
		if (tid < 0 || !WIFSTOPPED(status))
			continue;
		signal = handle_stop(log, tid, status);
		if (signal < 0)
			return signal;
		ptrace(PTRACE_SINGLESTEP, tid, NULL, (void *)(intptr_t)signal);
	}
	return -EIO;
}

int selftest_log_step(struct selftest_log *log, const char *program, const char *output)
{
	int status, rc;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become_program(program, output);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return -EIO;
	if (ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)) < 0 ||
	    ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
		rc = -errno;
	else
		rc = step_all(log, pid);
	if (rc < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, __WALL);
	}
	return rc;
}
