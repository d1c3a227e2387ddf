/* SPDX-License-Identifier: MIT */
/*
 * Access to /proc/PID through a descriptor of the directory, so that a reused number cannot refer to another process.
 * All contents are untrusted and may change at any time. No call waits for a file system in user space.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PROC_DIR_H
#define CSIGHT_DAEMON_CAPTURE_PROC_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/capture/process/file-identity.h"

struct proc_dir {
	int dir; /* /proc/PID */
	/* its root directory when this was opened, for use after the process has ended; -1: unavailable */
	int root;
	int pidfd; /* borrowed */
	pid_t pid;
	uid_t uid; /* owner when this was opened; root if the process is not dumpable */
	gid_t gid;
};

/* -ESRCH: the process has ended. */
int proc_dir_open(pid_t pid, int pidfd, struct proc_dir *ret);
void proc_dir_done(struct proc_dir *p);

bool proc_dir_alive(const struct proc_dir *p);

/*
 * 0: the owner is unchanged; -EPERM: it changed, for example by a set-user-ID program; -ESRCH: the process has ended;
 * -EAGAIN: unknown, since the first thread has ended while others run, and may execute a program under its number.
 */
int proc_dir_check_owner(const struct proc_dir *p);

/* An executable mapping in user space. */
struct proc_map {
	uint64_t start, end, offset, inode;
	uint32_t prot, major, minor;
	bool shared;
	char *path;
};

struct proc_maps {
	struct proc_map *list; /* by address */
	size_t n;
	bool crowded; /* there are more than the limit */
};

/* -ESRCH: the process has no memory any more. */
int proc_maps_read(const struct proc_dir *p, struct proc_maps *ret);
void proc_maps_done(struct proc_maps *m);

/* Return the first mapping that ends after addr, and the mapping that contains addr; NULL if none. */
const struct proc_map *proc_maps_next(const struct proc_maps *m, uint64_t addr);
const struct proc_map *proc_maps_find(const struct proc_maps *m, uint64_t addr);

/*
 * Opens the file of a mapping for reading: through the mapping itself, or, where that is not permitted, by its path
 * beneath the process's root if the file is the mapped one. -EINVAL: not a regular file; -EMEDIUMTYPE: its file system
 * may not answer; -ESTALE: another file has its name now.
 */
int proc_dir_open_map(const struct proc_dir *p, const struct proc_map *m, int *ret_fd);

/*
 * Opens a regular file by its path beneath the process's root, also after the process has ended. Neither the file nor a
 * directory of the path may be a link, or on a file system that may not answer.
 */
int proc_dir_open_file(const struct proc_dir *p, const char *path, int *ret_fd, struct file_identity *ret_id);

/*
 * Opens the process's perf map, which names generated code: /tmp/perf-PID.map beneath its own root, owned by uid. If
 * the process has ended, its root and its number in its namespace are unknown, and those of csightd count. ret_size:
 * the current size. -EFBIG: larger than the limit.
 */
int proc_dir_open_perf_map(pid_t pid, int pidfd, uid_t uid, int *ret_fd, uint64_t *ret_size);

/* Flags for each page of [start, end): */
enum { PROC_PAGE_PRESENT = 1, PROC_PAGE_FILE = 2 };
int proc_dir_read_pages(const struct proc_dir *p, uint64_t start, uint64_t end, uint8_t *ret);
uint64_t proc_page_size(void);

/* Opens the memory for pread() at addresses. */
int proc_dir_open_memory(const struct proc_dir *p);

#endif
