/* SPDX-License-Identifier: MIT */
/* The sockets that systemd passes to a daemon that it starts (csightd.socket). */
#ifndef CSIGHT_DAEMON_ACTIVATION_H
#define CSIGHT_DAEMON_ACTIVATION_H

/* Returns the listening socket of a path, non-blocking, or -ENOENT: none was passed. */
int activation_socket(const char *path, int type);

#endif
