/* SPDX-License-Identifier: MIT */
/*
 * The command of a trigger (the rule exec), which csight-runner runs for csightd: csightd has no right to change users.
 * A process of csight-runner serves one connection, and runs one command, as the user of the trigger: in a session of
 * its own, without descriptors, capabilities or environment of csightd, for a limited time and with limited output,
 * which csight-runner logs. The connection ends with the command.
 *
 * The system's csightd connects to the socket of csight-runner's unit, which runs commands of any user but root. The
 * csightd of a user starts csight-runner itself, which then runs commands of that user.
 */
#ifndef CSIGHT_DAEMON_RUNNER_H
#define CSIGHT_DAEMON_RUNNER_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/reason.h"

enum { RUNNER_ENVIRONMENT_MAX = 16, RUNNER_FD = 3 };

struct runner_command {
	uid_t uid;
	const char *about;                               /* the trigger that the command is run for, for messages */
	const char *command;                             /* for /bin/sh -c */
	const char *environment[RUNNER_ENVIRONMENT_MAX]; /* NAME=VALUE */
	size_t n_environment;
};

/*
 * Requests a command, without waiting: by the socket, or, if that is NULL, by a new process, of which *ret_pid is the
 * ID (else 0). Returns the connection, or negative errno.
 */
int runner_start(const char *socket, const struct runner_command *command, pid_t *ret_pid);

/*
 * Returns 0 if csight-runner at the socket may run commands of the user, else negative errno with the reason. socket
 * NULL: csightd runs them itself, in a child.
 */
int runner_check(const char *socket, uid_t uid, struct reason *why);

/* csight-runner's side: returns whether data is a valid request. The strings of *ret point into data. */
bool runner_parse(const char *data, size_t size, struct runner_command *ret);

/* csight-runner's side: runs the command that the client requests. Returns 0 after its end, or negative errno. */
int runner_serve(int client, unsigned seconds);

#endif
