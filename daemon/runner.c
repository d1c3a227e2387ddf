/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/runner.h"
#include "daemon/runner/protocol.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/path.h"

/* csight-runner gets a socket at RUNNER_FD, and nothing else. */
static int spawn(int sock, pid_t *ret_pid)
{
	char name[] = "csight-runner", search[] = "PATH=/usr/bin:/bin";
	char *const argv[] = { name, NULL }, *const environment[] = { search, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t all, none;
	char path[PATH_MAX];
	int rc = path_helper("csight-runner", PKGLIBEXECDIR, path, sizeof(path));

	if (rc < 0)
		return rc;
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&files, sock, RUNNER_FD);
	posix_spawn_file_actions_addclosefrom_np(&files, RUNNER_FD + 1);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	rc = -posix_spawn(ret_pid, path, &files, &attributes, argv, environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return rc;
}

static int start_process(pid_t *ret_pid)
{
	_cleanup_close_ int mine = -1, theirs = -1;
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	mine = pair[0];
	/* Not RUNNER_FD itself: adddup2() would leave close-on-exec as it is in some C libraries. */
	theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, RUNNER_FD + 1);
	close(pair[1]);
	if (theirs < 0)
		return -errno;
	rc = spawn(theirs, ret_pid);
	return rc < 0 ? rc : TAKE_FD(mine);
}

static int make_message(const struct runner_command *c, struct buf *ret)
{
	const struct runner_request r = { RUNNER_VERSION, c->uid, (uint32_t)c->n_environment };

	buf_add(ret, &r, sizeof(r));
	buf_add(ret, c->about, strlen(c->about) + 1);
	buf_add(ret, c->command, strlen(c->command) + 1);
	for (size_t i = 0; i < c->n_environment; i++)
		buf_add(ret, c->environment[i], strlen(c->environment[i]) + 1);
	return buf_error(ret);
}

int runner_start(const char *socket, const struct runner_command *c, pid_t *ret_pid)
{
	_cleanup_buf_ struct buf message = { .limit = RUNNER_MESSAGE_MAX };
	_cleanup_close_ int fd = -1;
	pid_t pid = 0;
	int rc = make_message(c, &message);

	if (rc < 0)
		return rc;
	fd = socket ? io_connect(socket, SOCK_NONBLOCK, 0) : start_process(&pid);
	if (fd < 0)
		return fd;
	*ret_pid = pid;
	/* The socket is empty, so that this does not wait. If it fails, the process ends with the connection. */
	rc = io_send_fds(fd, message.data, message.size, NULL, 0);
	return rc < 0 && !pid ? rc : TAKE_FD(fd);
}

int runner_check(const char *socket, uid_t uid, struct reason *why)
{
	if (uid == 0)
		return reason_set(why, -EPERM,
				  "exec: csightd runs no command as root; set the trigger as another user, to whom the "
				  "process belongs");
	if (!socket && geteuid() == 0)
		return reason_set(why, -EOPNOTSUPP,
				  "exec: this csightd runs as root without csight-runner.socket, which runs commands "
				  "as their users; use the units, or name its socket with the setting runner");
	if (!socket && geteuid() != uid)
		return reason_set(why, -EPERM, "exec: this csightd runs as user %u, and commands of that user alone",
				  geteuid());
	if (socket && access(socket, W_OK) < 0)
		return reason_set(why, -EOPNOTSUPP, "exec: csight-runner is not there (%s: %s); start %s", socket,
				  strerror(errno), "csight-runner.socket");
	return 0;
}
