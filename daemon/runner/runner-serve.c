/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <event2/event.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/job-log.h"
#include "daemon/runner.h"
#include "daemon/runner/protocol.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

enum { USER_TEXT = 4096, USER_VARIABLES = 6, VARIABLE_SIZE = PATH_MAX + 16 };

/* A command while it runs. */
struct run {
	struct event_base *base;
	struct runner_command command;
	struct passwd user;
	char user_text[USER_TEXT];
	char about[80];
	char variables[USER_VARIABLES][VARIABLE_SIZE];
	pid_t pid;
	unsigned seconds; /* limit of the run time of the command */
	bool late;
};

bool runner_parse(const char *data, size_t size, struct runner_command *ret)
{
	struct runner_request r;
	const char *strings[RUNNER_ENVIRONMENT_MAX + 2];
	size_t n = 0;

	if (size < sizeof(r))
		return false;
	memcpy(&r, data, sizeof(r));
	if (r.version != RUNNER_VERSION || r.n_environment > RUNNER_ENVIRONMENT_MAX)
		return false;
	for (size_t at = sizeof(r), length; at < size; at += length + 1) {
		length = strnlen(data + at, size - at);
		if (at + length == size || n >= (size_t)r.n_environment + 2)
			return false;
		strings[n++] = data + at;
	}
	if (n != (size_t)r.n_environment + 2)
		return false;
	*ret =
	    (struct runner_command){ .uid = r.uid, .about = strings[0], .command = strings[1], .n_environment = n - 2 };
	memcpy(ret->environment, strings + 2, (n - 2) * sizeof(*strings));
	return true;
}

static int find_user(struct run *r)
{
	struct passwd *found = NULL;

	if (r->command.uid == 0 || (geteuid() != 0 && geteuid() != r->command.uid))
		return -EPERM;
	if (getpwuid_r(r->command.uid, &r->user, r->user_text, sizeof(r->user_text), &found) == 0 && found)
		return 0;
	/*
	 * The user database lacks the user, so that the groups of the user are unknown. As root, csight-runner refuses
	 * the command; else it is that user already, and the command gets the groups of this process.
	 */
	if (geteuid() == 0)
		return -ESRCH;
	r->user_text[0] = 0;
	r->user = (struct passwd){
		.pw_uid = geteuid(), .pw_gid = getegid(), .pw_name = r->user_text, .pw_dir = r->user_text
	};
	return 0;
}

static bool become_user(const struct passwd *user)
{
	if (geteuid() == 0 &&
	    (initgroups(user->pw_name, user->pw_gid) < 0 || setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
	     setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0))
		return false;
	return geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* Fills the environment of the command: the variables of the user, then those of the request, then NULL. */
static void set_environment(struct run *r, char *ret[USER_VARIABLES + RUNNER_ENVIRONMENT_MAX + 1])
{
	const char *const values[USER_VARIABLES][2] = {
		{ "PATH", "/usr/local/bin:/usr/bin:/bin" },
		{ "SHELL", "/bin/sh" },
		{ "HOME", r->user.pw_dir },
		{ "USER", r->user.pw_name },
		{ "LOGNAME", r->user.pw_name },
		{ "LANG", "C.UTF-8" },
	};
	size_t n = 0;

	for (; n < USER_VARIABLES; n++) {
		snprintf(r->variables[n], VARIABLE_SIZE, "%s=%s", values[n][0], values[n][1]);
		ret[n] = r->variables[n];
	}
	for (size_t i = 0; i < r->command.n_environment; i++)
		ret[n++] = (char *)r->command.environment[i];
	ret[n] = NULL;
}

/* Executes the command in the child process; does not return. output: a descriptor for its output. */
static void run_command(struct run *r, int output)
{
	char *environment[USER_VARIABLES + RUNNER_ENVIRONMENT_MAX + 1];
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	sigemptyset(&none);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(output, STDERR_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    dup2(null, STDIN_FILENO) < 0 || syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0) < 0)
		_exit(126);
	if (setsid() < 0 || !become_user(&r->user)) {
		dprintf(STDERR_FILENO, "cannot become user %u: %s\n", r->command.uid, strerror(errno));
		_exit(126);
	}
	if (chdir(r->user.pw_dir) < 0 && chdir("/") < 0)
		_exit(126);
	set_environment(r, environment);
	execle("/bin/sh", "sh", "-c", r->command.command, (char *)NULL, environment);
	_exit(127);
}

/*
 * The command has ended and is not reaped yet: no other process can have its process ID, so that the kill reaches only
 * the rest of its process group.
 */
static void on_end(evutil_socket_t fd, short what, void *data)
{
	struct run *r = data;
	int status;

	kill(-r->pid, SIGKILL);
	if (waitpid(r->pid, &status, 0) != r->pid)
		log_error("%s: its end is unknown: %s", r->about, strerror(errno));
	else if (r->late)
		log_notice("%s was ended after %u s", r->about, r->seconds);
	else if (WIFSIGNALED(status))
		log_notice("%s was ended by signal %d", r->about, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		log_notice("%s failed with status %d", r->about, WEXITSTATUS(status));
	event_base_loopbreak(r->base);
}

static void on_time(evutil_socket_t fd, short what, void *data)
{
	struct run *r = data;

	r->late = true;
	kill(-r->pid, SIGKILL);
	kill(r->pid, SIGKILL);
}

/* Waits until the command ends, and ends it after r->seconds. */
static int await_end(struct run *r)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	struct event *end = pidfd < 0 ? NULL : event_new(r->base, pidfd, EV_READ, on_end, r);
	struct event *limit = evtimer_new(r->base, on_time, r);
	const struct timeval time = { (time_t)r->seconds, 0 };
	bool watched = end && limit && event_add(end, NULL) == 0 && event_add(limit, &time) == 0;

	if (watched)
		event_base_dispatch(r->base);
	else
		on_time(-1, 0, r);
	if (end)
		event_free(end);
	if (limit)
		event_free(limit);
	return watched ? 0 : -ENOMEM;
}

/* Runs the command, with its output in the log, and returns after its end. */
static int run_logged(struct run *r)
{
	struct job_log_rate rate = { 0 };
	_cleanup_close_ int output = -1;
	struct job_log *log;
	int rc = job_log_new(r->base, r->about, &rate, &log, &output);

	if (rc < 0)
		return rc;
	r->pid = fork();
	if (r->pid == 0)
		run_command(r, output);
	rc = r->pid < 0 ? -errno : 0;
	closep(&output);
	if (rc == 0)
		rc = await_end(r);
	job_log_free(log);
	return rc;
}

int runner_serve(int client, unsigned seconds)
{
	_cleanup_free_ char *message = malloc(RUNNER_MESSAGE_MAX);
	_cleanup_free_ struct run *r = calloc(1, sizeof(*r));
	size_t none = 0;
	ssize_t n;
	int rc;

	if (!message || !r)
		return -ENOMEM;
	r->seconds = seconds;
	n = io_receive_fds(client, message, RUNNER_MESSAGE_MAX, NULL, &none, 0);
	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	if (!runner_parse(message, (size_t)n, &r->command))
		return -EPROTO;
	snprintf(r->about, sizeof(r->about), "%s of uid %u: its command", r->command.about, r->command.uid);
	rc = find_user(r);
	if (rc < 0) {
		log_warning("%s is not run: %s", r->about,
			    rc == -EPERM ? "not as this user" : "the user database has no such user");
		return 0;
	}
	r->base = event_base_new();
	rc = r->base ? run_logged(r) : -ENOMEM;
	if (r->base)
		event_base_free(r->base);
	return rc;
}
