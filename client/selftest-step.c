/* SPDX-License-Identifier: MIT */
/*
 * The truth of csight selftest on hardware: the instructions of the known program that are compared, by single steps.
 */
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
 * Handles a stop of a thread; sets what continues it. Exclusive stores never succeed in single steps, so that all but
 * what is compared executes freely: the program raises SIGURG before that, and leaves it by returning. From a signal to
 * the first instruction after what is compared, the thread executes by single steps. Returns the signal to deliver, 0
 * for none, or negative errno.
 */
static int handle_stop(struct selftest_log *log, pid_t tid, int status, int *ret_request)
{
	struct selftest_thread *t = selftest_log_thread(log, (uint32_t)tid);
	int signal = WSTOPSIG(status), rc;
	size_t n;
	uint64_t pc;

	*ret_request = PTRACE_CONT;
	if (!t || !read_pc(tid, &pc))
		return -EIO;
	if (signal == SIGSTOP || status >> 16)
		return 0;
	if (!log->stop)
		return signal;
	if (signal != SIGTRAP) {
		t->stepped = false;
		*ret_request = PTRACE_SINGLESTEP;
		return signal;
	}
	n = t->n;
	rc = selftest_log_add(log, t, pc);
	if (t->n > n || !t->stepped)
		*ret_request = PTRACE_SINGLESTEP;
	t->stepped |= t->n > n;
	return rc;
}

static int step_all(struct selftest_log *log, pid_t program, const char *output)
{
	int status, signal, request, rc;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (tid == program && (WIFEXITED(status) || WIFSIGNALED(status)))
			return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
		if (tid < 0 || !WIFSTOPPED(status))
			continue;
		/* The program has printed the addresses before it raises the first signal. */
		rc = log->stop || WSTOPSIG(status) != SIGURG ? 0 : selftest_log_read_addresses(log, output);
		signal = rc < 0 ? rc : handle_stop(log, tid, status, &request);
		if (signal < 0)
			return signal;
		ptrace(request, tid, NULL, (void *)(intptr_t)signal);
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
	    ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
		rc = -errno;
	else
		rc = step_all(log, pid, output);
	if (rc < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, __WALL);
	}
	return rc;
}
