/* SPDX-License-Identifier: MIT */
/*
 * The exit status of a process that is not a child. A zombie has it in /proc/PID/stat; since Linux 6.15, a pidfd has it
 * after the process was reaped.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_EXIT_STATUS_H
#define CSIGHT_DAEMON_CAPTURE_EXIT_STATUS_H

#include <sys/types.h>

/* *ret: as waitpid() returns it. -EAGAIN: the process runs; -ESRCH: it was reaped, and the kernel does not keep it. */
int exit_status_read(pid_t pid, int pidfd, int *ret);

#endif
