/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "daemon/activation.h"
#include "lib/base/util.h"

enum { BACKLOG = 64 };

#ifdef HAVE_SYSTEMD
int activation_socket(const char *path, int type)
{
	int n = sd_listen_fds(0);

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++)
		if (sd_is_socket_unix(fd, type, 1, path, 0) > 0)
			return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : fd;
	return -ENOENT;
}
#else
int activation_socket(const char *path, int type)
{
	(void)path;
	(void)type;
	return -ENOENT;
}
#endif

int activation_listen(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

#ifdef HAVE_SYSTEMD
	if (!path && sd_listen_fds(1) == 1)
		return SD_LISTEN_FDS_START;
#endif
	if (!path || strlen(path) >= sizeof(a.sun_path))
		return -EINVAL;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

bool activation_permits(int client)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}
