/* SPDX-License-Identifier: MIT */
/*
 * A listening Unix socket, passed by systemd or opened here. Each accepted connection goes to the owner, with its
 * peer's credentials. While the process has no free descriptor or memory, the listener pauses; connections wait in the
 * backlog. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_LISTENER_H
#define CSIGHT_DAEMON_LISTENER_H

#include <event2/event.h>
#include <sys/socket.h>
#include <sys/types.h>

struct listener;

enum { LISTENER_GROUPS_MAX = 1024 };

/* The credentials of a peer when it connected. groups: its gid, and its supplementary groups. */
struct listener_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid, groups[LISTENER_GROUPS_MAX + 1];
	size_t n_groups;
	uid_t login_uid; /* (uid_t)-1: unknown, or it belongs to no login */
};

struct listener_options {
	const char *path;
	int type;      /* SOCK_STREAM or SOCK_SEQPACKET */
	unsigned mode; /* of the socket file */
	/* fd is non-blocking and belongs to the owner. */
	void (*accepted)(void *data, int fd, const struct listener_peer *peer);
	void *data;
};

/*
 * Replaces a stale socket at the path. -EADDRINUSE: a live process listens there, and its pid is in *ret_pid (which may
 * be NULL); -ENOTSOCK: another kind of file is there; -ENAMETOOLONG.
 */
int listener_new(struct event_base *base, const struct listener_options *options, pid_t *ret_pid,
		 struct listener **ret);

/* Lets new connections to a socket that systemd passed wait, for this daemon or the next one; has no effect on others.
 */
void listener_hold(struct listener *l, bool hold);

/* Removes the socket file, unless systemd passed the socket. */
struct listener *listener_free(struct listener *l);
const char *listener_path(const struct listener *l);

#endif
