/* SPDX-License-Identifier: MIT */
/* The sockets that systemd passes to a daemon that it starts. */
#ifndef CSIGHT_DAEMON_ACTIVATION_H
#define CSIGHT_DAEMON_ACTIVATION_H

/* Returns the listening socket of a path, non-blocking, or -ENOENT: none was passed. */
int activation_socket(const char *path, int type);

/* Of a daemon with one socket of packets: listens at the path, or, if it is NULL, on the socket that was passed. */
int activation_listen(const char *path);

#endif
