/* SPDX-License-Identifier: MIT */
/* Reads small files of /proc and /sys, whose size stat() does not report. */
#ifndef CSIGHT_DAEMON_CAPTURE_PROC_FILE_H
#define CSIGHT_DAEMON_CAPTURE_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Reads up to room - 1 bytes and terminates them by NUL. dir: AT_FDCWD, or a directory that path is relative to.
 * Negative errno.
 */
int proc_file_read(int dir, const char *path, char *ret, size_t room);

/* Returns the number in a file; -1 if it cannot be read. */
long long proc_file_number(const char *path);

/* Returns a field of the text of /proc/PID/stat, counted from 1 as in proc(5), from the third on; NULL: it is not
 * there. */
const char *proc_file_stat_field(const char *text, unsigned field);

/*
 * Reads when a process started, in ticks since the boot: number and start identify a process until the next boot.
 * -ESRCH: it is gone.
 */
int proc_file_start(pid_t pid, uint64_t *ret);

/*
 * Reads the path of the program that a process executes, without the mark of a file that was removed or replaced, and
 * terminates it by NUL. Negative errno; -ENOENT: a thread of the kernel.
 */
int proc_file_exe(pid_t pid, char *ret, size_t room);

/*
 * True if a process has ended, and is held by threads that wait in the kernel, as for a file system that gives no
 * answer: its descriptors stay open.
 */
bool proc_file_is_zombie(pid_t pid);

/* Reads the number of a process's parent, which changes when the parent ends. -ESRCH: the process is gone. */
int proc_file_parent(pid_t pid, pid_t *ret);

#endif
