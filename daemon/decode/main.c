/*
 * csight-decode: decodes for csightd and `csight decode`, so that nothing that reads hostile bytes has rights. A small
 * server forks one child a job; it holds nothing of any job itself.
 */
#include "config.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/decode/cage.h"
#include "daemon/decode/decode.h"
#include "daemon/decode/job.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/etm/engine.h"
#include "lib/etm/guard.h"

enum { SERVER_FD = 3, JOBS_MAX = 64, MESSAGE_MAX = 4096, STUCK_SECONDS = 60 };

#if UNDER_SANITIZER
/* OpenCSD loses a little with each tree; a job's end takes it back. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libopencsd\n";
}

const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
#endif

struct child {
	pid_t pid; /* 0: free */
	uint64_t job;
};

static struct child children[JOBS_MAX];

static int run_job(int sock, uint64_t id)
{
	struct decode_job job = { .socket = sock };
	char name[32], reason[128];
	unsigned cage;
	int rc;

	snprintf(name, sizeof(name), "csight-job-%llu", (unsigned long long)id);
	prctl(PR_SET_NAME, name);
	guard_install();
	guard_watch(STUCK_SECONDS);
	/* Nothing that comes from a job is looked at before. */
	rc = cage_lock(&cage);
	if (rc < 0) {
		snprintf(reason, sizeof(reason), "the system does not let it be caged: %s", strerror(-rc));
		job_failed(&job, reason);
		return EXIT_FAILURE;
	}
	rc = job_receive(sock, &job);
	if (rc < 0) {
		job_failed(&job, rc == -EBADMSG ? "not a start message" : strerror(-rc));
		return EXIT_FAILURE;
	}
	job.cage = cage;
	rc = decode_run(&job);
	if (rc < 0)
		job_failed(&job, job.reason);
	json_object_put(job.start);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void tell_end(uint64_t job, int status)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "{\"job\": %llu, \"status\": %d}", (unsigned long long)job, status);

	fdmsg_send(SERVER_FD, text, (size_t)n, NULL, 0);
}

static void begin_job(uint64_t job, int sock)
{
	struct child *slot = NULL;
	pid_t server = getpid(), pid;

	for (size_t i = 0; !slot && i < JOBS_MAX; i++)
		if (!children[i].pid)
			slot = &children[i];
	pid = slot ? fork() : -1;
	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != server || dup2(sock, SERVER_FD) < 0 ||
		    syscall(SYS_close_range, SERVER_FD + 1, ~0u, 0) < 0)
			_exit(EXIT_FAILURE);
		exit(run_job(SERVER_FD, job));
	}
	if (pid < 0) {
		tell_end(job, W_EXITCODE(EXIT_FAILURE, 0));
		return;
	}
	*slot = (struct child){ pid, job };
}

/* What is no job is passed over: whoever sent it has its own end of the job's socket to learn from. */
static int on_message(void)
{
	_cleanup_json_ json_object *o = NULL;
	_cleanup_close_ int sock = -1;
	char text[MESSAGE_MAX];
	size_t n_fds = 1;
	uint64_t job;
	ssize_t n = fdmsg_recv(SERVER_FD, text, sizeof(text), &sock, &n_fds, 0);

	if (n == -EMSGSIZE) {
		/* fdmsg_recv has closed what came. */
		sock = -1;
		return 0;
	}
	if (n <= 0)
		return -EPIPE;
	if (n_fds == 0)
		sock = -1;
	if (sock < 0 || json_parse(text, (size_t)n, &o) < 0 || !json_object_is_type(o, json_type_object) ||
	    json_get_u64(o, "job", &job) < 0)
		return 0;
	begin_job(job, sock);
	return 0;
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < JOBS_MAX; i++)
			if (children[i].pid == pid) {
				children[i].pid = 0;
				tell_end(children[i].job, status & 0xffff);
			}
}

static int serve(void)
{
	struct pollfd fds[2] = { { SERVER_FD, POLLIN, 0 }, { -1, POLLIN, 0 } };
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signal(SIGPIPE, SIG_IGN);
	fds[1].fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fds[1].fd < 0)
		return EXIT_FAILURE;
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return EXIT_FAILURE;
		if (fds[1].revents & POLLIN) {
			struct signalfd_siginfo info;

			while (read(fds[1].fd, &info, sizeof(info)) > 0)
				;
			reap();
		}
		/* Without an owner there is nobody to work for; the children go with this process. */
		if (fds[0].revents & (POLLIN | POLLHUP | POLLERR) && on_message() < 0)
			return EXIT_SUCCESS;
	}
}

static void usage(FILE *to)
{
	fputs("usage: csight-decode [--help | --version]\n"
	      "\n"
	      "Turns recorded CoreSight trace into what ran, one unprivileged child process a job.\n"
	      "It is started by csightd and by `csight decode`, which hand it what it reads and writes\n"
	      "over a socket (file descriptor 3); by hand it does nothing. To decode a file:\n"
	      "\n"
	      "  csight decode [--to FORMAT] [-o FILE] INPUT\n",
	      to);
}

int main(int argc, char **argv)
{
	int type = 0;
	socklen_t size = sizeof(type);

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		usage(stdout);
		return EXIT_SUCCESS;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		const char *warning;

		printf("csight-decode %s\nOpenCSD %s\n", PACKAGE_VERSION, opencsd_version(&warning));
		if (warning)
			printf("warning: %s\n", warning);
		return EXIT_SUCCESS;
	}
	if (argc != 2 || strcmp(argv[1], "--server") != 0 ||
	    getsockopt(SERVER_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET) {
		usage(stderr);
		return 2;
	}
	return serve();
}
