/* SPDX-License-Identifier: MIT */
/* The server of csight-decode, and what a child does with its job. */
#include "config.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/decode/build-id-job.h"
#include "daemon/decode/cage.h"
#include "daemon/decode/decode.h"
#include "daemon/decode/job.h"
#include "daemon/decode/live.h"
#include "daemon/decode/memory-files.h"
#include "daemon/decode/server.h"
#include "daemon/decode/watchdog.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/etm/guard.h"

enum {
	SERVER_FD = 3,
	MESSAGE_MAX = 4096,
	STUCK_SECONDS = 60,
	END_MS = 1000,
	ATTEMPTS = 10, /* attempts of a call that fails since memory is short */
	PAUSE_US = 10000,
};

#if UNDER_SANITIZER
/* OpenCSD leaks some memory per decode tree; the child that decodes a job ends with it. */
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

static struct child children[DECODER_JOBS_MAX];

/* The standard error of a job that will be submitted. */
static struct {
	uint64_t job;
	int fd; /* -1: none */
} next_log = { .fd = -1 };

static int run_job(int sock, uint64_t id)
{
	struct decode_job job = { .socket = sock };
	char name[32];
	unsigned cage;
	int rc;

	snprintf(name, sizeof(name), "csight-job-%llu", (unsigned long long)id);
	prctl(PR_SET_NAME, name);
	guard_install();
	guard_watch(STUCK_SECONDS);
	/* Must precede the first read from the job's socket: its messages and descriptors are hostile. */
	rc = cage_lock(&cage);
	if (rc < 0) {
		reason_set(&job.reason, rc, "cannot sandbox the decoder: %s", strerror(-rc));
		job_failed(&job, job.reason.text);
		return EXIT_FAILURE;
	}
	rc = job_receive(sock, &job);
	if (rc < 0) {
		job_failed(&job, job.reason.text[0] ? job.reason.text
				 : rc == -EBADMSG   ? "invalid start message from the owner"
						    : strerror(-rc));
		return EXIT_FAILURE;
	}
	job.cage = cage;
	rc = strcmp(job.type, DECODER_BUILD_IDS) == 0 ? build_id_job_run(&job)
	     : strcmp(job.type, DECODER_LIVE) == 0    ? live_run(&job)
						      : decode_run(&job);
	if (rc < 0)
		job_failed(&job, job.reason.text);
	json_object_put(job.start);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The owner waits for this message. If it cannot be sent, the server ends, which reports the end of all jobs. */
static int send_end(uint64_t job, int status)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "{\"job\": %llu, \"status\": %d}", (unsigned long long)job, status), rc;

	for (int i = 0; i < ATTEMPTS; i++) {
		rc = io_send_fds(SERVER_FD, text, (size_t)n, NULL, 0);
		if (rc != -ENOBUFS && rc != -ENOMEM)
			break;
		usleep(PAUSE_US);
	}
	return rc;
}

/* The kernel sends SIGXFSZ beyond the limit, which cage_lock() ignores: then the write fails. */
static void limit_files(pid_t pid, uint64_t bytes)
{
	struct rlimit now;

	if (prlimit(pid, RLIMIT_FSIZE, NULL, &now) < 0)
		return;
	now.rlim_cur = MIN((rlim_t)bytes, now.rlim_max);
	prlimit(pid, RLIMIT_FSIZE, &now, NULL);
}

/*
 * The server's standard error is csightd's log: a job that is taken over must not write lines of it. Reports of a
 * sanitizer are longer than what the owner accepts.
 */
static int set_standard_error(uint64_t job)
{
	int fd = next_log.fd >= 0 && next_log.job == job ? next_log.fd : STDOUT_FILENO;

	return UNDER_SANITIZER ? 0 : dup2(fd, STDERR_FILENO);
}

/* Starts the child for a job. limit: as in decoder_submit_limited(). */
static int start_job(uint64_t job, int sock, uint64_t limit)
{
	struct child *slot = NULL;
	pid_t server = getpid(), pid;

	for (size_t i = 0; !slot && i < DECODER_JOBS_MAX; i++)
		if (!children[i].pid)
			slot = &children[i];
	pid = slot ? fork() : -1;
	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (set_standard_error(job) < 0)
			_exit(EXIT_FAILURE);
		if (getppid() != server || dup2(sock, SERVER_FD) < 0 ||
		    syscall(SYS_close_range, SERVER_FD + 1, ~0u, 0) < 0)
			_exit(EXIT_FAILURE);
		memory_files_open();
		if (limit)
			limit_files(0, limit);
		exit(run_job(SERVER_FD, job));
	}
	closep(&next_log.fd);
	if (pid < 0)
		return send_end(job, W_EXITCODE(EXIT_FAILURE, 0));
	*slot = (struct child){ pid, job };
	return 0;
}

static void extend_job(uint64_t job, uint64_t limit)
{
	for (size_t i = 0; i < DECODER_JOBS_MAX; i++)
		if (children[i].pid && children[i].job == job)
			limit_files(children[i].pid, limit);
}

static void kill_job(uint64_t job)
{
	for (size_t i = 0; i < DECODER_JOBS_MAX; i++)
		if (children[i].pid && children[i].job == job)
			kill(children[i].pid, SIGKILL);
}

/*
 * Starts, extends or kills the job of one message, or keeps its log; ignores an invalid one, whose sender sees the
 * job's socket close. Returns -EPIPE when the owner has gone, or another error that ends the server.
 */
static int receive_job(void)
{
	_cleanup_json_ json_object *o = NULL;
	_cleanup_close_ int sock = -1;
	char text[MESSAGE_MAX];
	size_t n_fds = 1;
	uint64_t job, limit = 0;
	ssize_t n = io_receive_fds(SERVER_FD, text, sizeof(text), &sock, &n_fds, 0);
	int rc;

	if (n == -EMSGSIZE)
		return 0;
	if (n <= 0)
		return -EPIPE;
	if (n_fds == 0)
		sock = -1;
	for (int i = 0; (rc = json_parse(text, (size_t)n, &o)) == -ENOMEM; i++) {
		if (i == ATTEMPTS)
			return rc;
		usleep(PAUSE_US);
	}
	if (rc < 0 || !json_object_is_type(o, json_type_object))
		return 0;
	json_get_u64(o, "limit", &limit);
	if (json_get_u64(o, "kill", &job) == 0) {
		kill_job(job);
	} else if (json_get_u64(o, "extend", &job) == 0) {
		extend_job(job, limit);
	} else if (sock >= 0 && json_get_u64(o, "log", &job) == 0) {
		closep(&next_log.fd);
		next_log.job = job;
		next_log.fd = TAKE_FD(sock);
	} else if (sock >= 0 && json_get_u64(o, "job", &job) == 0) {
		return start_job(job, sock, limit);
	}
	return 0;
}

static int reap_children(void)
{
	int status, rc = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < DECODER_JOBS_MAX; i++)
			if (children[i].pid == pid) {
				int sent = send_end(children[i].job, status & 0xffff);

				children[i].pid = 0;
				rc = MIN(rc, sent);
			}
	return rc;
}

static bool has_children(void)
{
	for (size_t i = 0; i < DECODER_JOBS_MAX; i++)
		if (children[i].pid)
			return true;
	return false;
}

static int read_signals(int fd)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) > 0)
		;
	return reap_children();
}

/*
 * The owner has gone: ends the jobs, and waits for them, so that their processor time counts as that of the owner's
 * children. A child that the kernel cannot end in time, since a file system does not answer, is left.
 */
static void end_children(int signals)
{
	struct pollfd fd = { signals, POLLIN, 0 };

	for (size_t i = 0; i < DECODER_JOBS_MAX; i++)
		if (children[i].pid)
			kill(children[i].pid, SIGKILL);
	reap_children();
	while (has_children() && poll(&fd, 1, END_MS) > 0)
		read_signals(signals);
}

static int serve(const struct watchdog *watchdog)
{
	struct pollfd fds[2] = { { SERVER_FD, POLLIN, 0 }, { -1, POLLIN, 0 } };
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* Ctrl-C is for the owner, whose end ends the server. */
	signal(SIGINT, SIG_IGN);
	fds[1].fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fds[1].fd < 0)
		return -errno;
	for (;;) {
		watchdog_feed(watchdog);
		if (poll(fds, 2, watchdog->period_ms) < 0 && errno != EINTR)
			return -errno;
		if ((fds[1].revents & POLLIN && read_signals(fds[1].fd) < 0) ||
		    (fds[0].revents & (POLLIN | POLLHUP | POLLERR) && receive_job() < 0)) {
			end_children(fds[1].fd);
			return 0;
		}
	}
}

int server_run(void)
{
	int type = 0;
	socklen_t size = sizeof(type);
	struct watchdog watchdog;
	struct ucred owner;
	int rc;

	/* The server receives the trace of all users: other processes of its user must not attach to it. */
	prctl(PR_SET_DUMPABLE, 0);
	if (getsockopt(SERVER_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)
		return -ENOTSOCK;
	size = sizeof(owner);
	if (getsockopt(SERVER_FD, SOL_SOCKET, SO_PEERCRED, &owner, &size) < 0 ||
	    (owner.uid != 0 && owner.uid != geteuid()))
		return -EPERM;
	watchdog = watchdog_open();
	rc = serve(&watchdog);
	closep(&watchdog.fd);
	return rc;
}
