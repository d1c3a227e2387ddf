/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "daemon/activation.h"

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
