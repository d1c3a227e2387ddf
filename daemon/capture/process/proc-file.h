/* SPDX-License-Identifier: MIT */
/* Reads small files of /proc and /sys, whose size stat() does not report. */
#ifndef CSIGHT_DAEMON_CAPTURE_PROC_FILE_H
#define CSIGHT_DAEMON_CAPTURE_PROC_FILE_H

#include <stddef.h>

/*
 * Reads up to room - 1 bytes and terminates them by NUL. dir: AT_FDCWD, or a directory that path is relative to.
 * Negative errno.
 */
int proc_file_read(int dir, const char *path, char *ret, size_t room);

/* Returns the number in a file; -1 if it cannot be read. */
long long proc_file_number(const char *path);

#endif
