/* Which file a descriptor is of, without ever waiting for its file system. O_PATH descriptors will do. */
#ifndef CSIGHT_DAEMON_CAPTURE_FILE_IDENTITY_H
#define CSIGHT_DAEMON_CAPTURE_FILE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* As snapshot.json has it. */
struct file_identity {
	uint32_t major, minor;
	uint64_t inode, size, mtime, ctime, links;
	uid_t uid;
	uint32_t mode;
	bool regular, directory;
};

int file_identify(int fd, struct file_identity *ret);

/*
 * Whether reading a file depends on the kernel alone. A file system in user space could let the reader wait for ever,
 * and its owner may be whom we guard against. pid: in whose mounts it may be besides our own; 0: nobody's.
 */
bool file_kernel_served(int fd, const struct file_identity *id, pid_t pid);

#endif
