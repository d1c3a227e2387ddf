/* SPDX-License-Identifier: MIT */
/*
 * Reads of files that another user may write to. On some file systems (XFS) a read() waits for the lock of the file,
 * and no signal ends that wait: a write() keeps the lock while it reads memory that a file system in user space serves,
 * which is for as long as its user likes.
 */
#ifndef CSIGHT_NOWAIT_H
#define CSIGHT_NOWAIT_H

#include <sys/types.h>

/*
 * As pread(), but waits for the disk alone, and for the lock of the file at most a fifth of a second: EBUSY. On a
 * kernel or file system without such reads it is pread().
 */
ssize_t nowait_pread(int fd, void *ret, size_t size, off_t at);

#endif
