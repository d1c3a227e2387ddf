/* SPDX-License-Identifier: MIT */
/*
 * A csightd for the duration of one command, where none runs: with a runtime directory of its own, which is removed
 * afterwards, and the spool of the user, so that snapshots stay.
 */
#ifndef CSIGHT_CLIENT_PRIVATE_DAEMON_H
#define CSIGHT_CLIENT_PRIVATE_DAEMON_H

#include <limits.h>
#include <sys/types.h>

struct private_daemon {
	pid_t pid; /* 0: none runs */
	char directory[PATH_MAX], socket[PATH_MAX], log[PATH_MAX];
};

/*
 * Starts the daemon and waits until it answers. Returns 0, or a negative errno after an error was printed. It ends with
 * this process at the latest.
 */
int private_daemon_start(struct private_daemon *d);

/*
 * Ends the daemon, after the calls that wait, and removes its directory. Does nothing if none runs. Async-signal-safe:
 * it is done, too, before a signal ends this process.
 */
void private_daemon_end(struct private_daemon *d);

#endif
