/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "client/client.h"
#include "client/ending.h"
#include "client/private-daemon.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/path.h"

enum { ANSWER_TRIES = 500, ANSWER_PAUSE_MS = 20, LOG_MAX = 4096 };

static int make_directory(struct private_daemon *d)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	snprintf(d->directory, sizeof(d->directory), "%s/csight-run-XXXXXX",
		 runtime && runtime[0] == '/' ? runtime : "/tmp");
	if (!mkdtemp(d->directory))
		return -errno;
	if ((size_t)snprintf(d->socket, sizeof(d->socket), "%s/csight.sock", d->directory) >= sizeof(d->socket) ||
	    (size_t)snprintf(d->log, sizeof(d->log), "%s/log", d->directory) >= sizeof(d->log))
		return -ENAMETOOLONG;
	return 0;
}

/* Executes csightd in the child process, in a session of its own, since signals of the terminal are for the program. */
static void become_daemon(const char *csightd, const struct private_daemon *d, pid_t parent)
{
	int log = open(d->log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (log < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(log, STDERR_FILENO) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(1);
	execl(csightd, "csightd", "--capture=emu", "--socket", d->socket, (char *)NULL);
	_exit(1);
}

static bool answers(const struct private_daemon *d)
{
	_cleanup_object_ struct csight_object *status = NULL;
	struct csight *c = NULL;
	bool yes = csight_open(d->socket, &c) == 0 && csight_status(c, &status) == 0;

	csight_close(c);
	return yes;
}

/* Prints the last line of the log of the daemon, which has the reason of a failure. */
static void print_log(const struct private_daemon *d)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	char *line;

	if (io_read_file(AT_FDCWD, d->log, LOG_MAX, &text, &size) < 0)
		return;
	while (size && text[size - 1] == '\n')
		text[--size] = 0;
	line = strrchr(text, '\n');
	if (size)
		client_error("%s", esc(line ? line + 1 : text));
}

static bool wait_for_answer(struct private_daemon *d)
{
	const struct timespec pause = { 0, ANSWER_PAUSE_MS * 1000000 };

	for (unsigned n = 0; n < ANSWER_TRIES; n++) {
		if (answers(d))
			return true;
		if (waitpid(d->pid, NULL, WNOHANG) == d->pid) {
			d->pid = 0;
			return false;
		}
		nanosleep(&pause, NULL);
	}
	return false;
}

/* A second signal ends the daemon at once, although this process waits for a snapshot. */
static void end_at_once(void *daemon)
{
	const struct private_daemon *d = daemon;

	if (d->pid > 0)
		kill(d->pid, SIGINT);
	private_daemon_end(daemon);
}

int private_daemon_start(struct private_daemon *d)
{
	char csightd[PATH_MAX];
	pid_t parent = getpid();
	int rc = path_helper("csightd", SBINDIR, csightd, sizeof(csightd));

	*d = (struct private_daemon){ 0 };
	if (rc == 0)
		rc = make_directory(d);
	if (rc < 0) {
		client_error("cannot start a csightd for this run: %s", strerror(-rc));
		return rc;
	}
	ending_add(end_at_once, d);
	fflush(NULL);
	d->pid = fork();
	if (d->pid == 0)
		become_daemon(csightd, d, parent);
	if (d->pid > 0 && wait_for_answer(d))
		return 0;
	rc = d->pid < 0 ? -errno : -EIO;
	client_error("cannot start a csightd for this run (%s)", esc(csightd));
	print_log(d);
	d->pid = d->pid < 0 ? 0 : d->pid;
	private_daemon_end(d);
	return rc;
}

void private_daemon_end(struct private_daemon *d)
{
	if (d->pid > 0) {
		kill(d->pid, SIGTERM);
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	d->pid = 0;
	if (d->directory[0]) {
		unlink(d->log);
		rmdir(d->directory);
	}
	d->directory[0] = 0;
	ending_drop(d);
}
