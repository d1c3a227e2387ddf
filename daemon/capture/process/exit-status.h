/* SPDX-License-Identifier: MIT */
/*
 * The exit status of a process that is not a child. Since Linux 6.15 a pidfd has it once the process was reaped; before
 * that, and in older kernels, /proc/PID/stat has it.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_EXIT_STATUS_H
#define CSIGHT_DAEMON_CAPTURE_EXIT_STATUS_H

#include <sys/types.h>

/* *ret: as waitpid() returns it. -EAGAIN: the process runs; -ESRCH: it was reaped, and the kernel does not keep it. */
int exit_status_read(pid_t pid, int pidfd, int *ret);

#endif
