/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "daemon/activation.h"
#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/listener.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

/* Since Linux 6.5; Debian 12's headers lack it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum { BACKLOG = 64, PAUSE_MS = 200 };

static const uint64_t log_ns = 60000000000u; /* between two lines about failures */

struct listener {
	void (*accepted)(void *data, int fd, const struct listener_peer *peer);
	void *data;
	int fd;
	bool passed; /* systemd keeps the socket and its path */
	struct event *accept, *retry;
	uint64_t logged_ns; /* when a failure was logged, CLOCK_MONOTONIC; 0: never */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* -EADDRINUSE if a process listens at the address, and has not ended; else 0. */
static int check_live_peer(const struct sockaddr_un *addr, int type, pid_t *ret_pid)
{
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(struct ucred);
	struct ucred peer = { 0 };

	if (fd < 0)
		return -errno;
	/* EAGAIN means a full backlog: a process listens. */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 && errno != EAGAIN)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && proc_file_is_zombie(peer.pid))
		return 0;
	if (ret_pid)
		*ret_pid = peer.pid;
	return -EADDRINUSE;
}

static int open_socket(const char *path, int type, unsigned mode, pid_t *ret_pid)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	struct stat st;
	int rc;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return -ENOTSOCK;
		rc = check_live_peer(&addr, type, ret_pid);
		if (rc < 0)
			return rc;
		unlink(path);
	}
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, mode) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/*
 * Reads who logged in for the peer. Before Linux 6.5 the kernel does not say whether its number is still that of the
 * process that connected; then it must have the uid of the peer at least.
 */
static uid_t read_login_uid(int fd, const struct ucred *peer)
{
	_cleanup_close_ int pidfd = -1;
	socklen_t size = sizeof(pidfd);
	struct credentials c;
	uid_t uid;

	if (peer->pid <= 0)
		return (uid_t)-1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0) {
		pidfd = errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, peer->pid, 0) : -1;
		if (pidfd < 0 || credentials_read_pidfd(peer->pid, pidfd, &c) < 0 || c.uid[1] != peer->uid)
			return (uid_t)-1;
	}
	return credentials_read_login_uid(peer->pid, pidfd, &uid) == 0 ? uid : (uid_t)-1;
}

static int read_peer(int fd, struct listener_peer *ret)
{
	socklen_t size = sizeof(struct ucred), room = sizeof(ret->groups) - sizeof(ret->groups[0]);
	struct ucred c;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &size) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret->groups + 1, &room) < 0)
		return -errno;
	ret->pid = c.pid;
	ret->uid = c.uid;
	ret->gid = ret->groups[0] = c.gid;
	ret->login_uid = read_login_uid(fd, &c);
	ret->n_groups = 1 + room / sizeof(ret->groups[0]);
	return 0;
}

static void on_accept(evutil_socket_t fd, short what, void *data)
{
	struct listener *l = data;
	struct timeval pause = { 0, PAUSE_MS * 1000 };
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct listener_peer peer;

	if (client >= 0) {
		if (read_peer(client, &peer) < 0)
			close(client);
		else
			l->accepted(l->data, client, &peer);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		/* The connection stays in the backlog, so that an immediate retry would only spin. */
		if (!l->logged_ns || now_ns(CLOCK_MONOTONIC) - l->logged_ns > log_ns) {
			log_warning("cannot accept connections at %s: %s; retrying", l->path, strerror(errno));
			l->logged_ns = now_ns(CLOCK_MONOTONIC);
		}
		event_del(l->accept);
		event_add(l->retry, &pause);
	}
}

static void on_retry(evutil_socket_t fd, short what, void *data)
{
	struct listener *l = data;

	event_add(l->accept, NULL);
}

int listener_new(struct event_base *base, const struct listener_options *options, pid_t *ret_pid, struct listener **ret)
{
	int fd = activation_socket(options->path, options->type);
	bool passed = fd >= 0;
	struct listener *l;

	if (fd == -ENOENT)
		fd = open_socket(options->path, options->type, options->mode, ret_pid);
	if (fd < 0)
		return fd;
	l = calloc(1, sizeof(*l));
	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->accepted = options->accepted;
	l->data = options->data;
	l->fd = fd;
	l->passed = passed;
	strcpy(l->path, options->path);
	l->accept = event_new(base, fd, EV_READ | EV_PERSIST, on_accept, l);
	l->retry = evtimer_new(base, on_retry, l);
	if (!l->accept || !l->retry || event_add(l->accept, NULL) < 0) {
		listener_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void listener_hold(struct listener *l, bool hold)
{
	if (!l->passed)
		return;
	event_del(l->retry);
	if (hold)
		event_del(l->accept);
	else
		event_add(l->accept, NULL);
}

struct listener *listener_free(struct listener *l)
{
	if (!l)
		return NULL;
	if (l->accept)
		event_free(l->accept);
	if (l->retry)
		event_free(l->retry);
	if (!l->passed)
		unlink(l->path);
	close(l->fd);
	free(l);
	return NULL;
}

const char *listener_path(const struct listener *l)
{
	return l->path;
}
