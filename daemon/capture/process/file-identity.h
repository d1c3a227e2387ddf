/* SPDX-License-Identifier: MIT */
/* Identifies the file of a descriptor, which may be O_PATH, without waiting for its file system. */
#ifndef CSIGHT_DAEMON_CAPTURE_FILE_IDENTITY_H
#define CSIGHT_DAEMON_CAPTURE_FILE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The fields of snapshot.json. */
struct file_identity {
	uint32_t major, minor;
	uint64_t inode, size, mtime, ctime, links;
	uint64_t mount; /* the number of the mount; 0: unknown (Linux before 5.8) */
	uid_t uid;
	uint32_t mode;
	bool regular, directory;
};

int file_identify(int fd, struct file_identity *ret);

/*
 * True if only the kernel serves the file. A file system in user space may block a reader for ever, and its owner is
 * not trusted. pid: a process whose mounts are also searched, or 0.
 */
bool file_kernel_served(int fd, const struct file_identity *id, pid_t pid);

/*
 * The same for a thread that may wait: this function also asks the file system. False for files in /proc: reading them
 * may wait for the memory of a process, and they have no code.
 */
bool file_kernel_served_for_sure(int fd, const struct file_identity *id, pid_t pid);

#endif
