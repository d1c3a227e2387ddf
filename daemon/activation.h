/* SPDX-License-Identifier: MIT */
/* The sockets that systemd passes to a daemon that it starts. */
#ifndef CSIGHT_DAEMON_ACTIVATION_H
#define CSIGHT_DAEMON_ACTIVATION_H

#include <stdbool.h>

/* Returns the listening socket of a path, non-blocking, or -ENOENT: none was passed. */
int activation_socket(const char *path, int type);

/*
 * Returns the listening SOCK_SEQPACKET socket of a daemon that has one socket: at the path, or, if it is NULL, the one
 * that systemd passed.
 */
int activation_listen(const char *path);

/* True if a client of such a socket is root, or the user as whom this process runs. */
bool activation_permits(int client);

#endif
