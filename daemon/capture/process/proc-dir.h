/*
 * What /proc tells of one process, by a descriptor of its directory, so that it is never another's that has its number.
 * All of it may be a lie or change meanwhile. Nothing here waits for a file system that is not the kernel's.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PROC_DIR_H
#define CSIGHT_DAEMON_CAPTURE_PROC_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/capture/process/file-identity.h"

struct proc_dir {
	int dir;   /* /proc/PID */
	int root;  /* its own when this was opened, for when it is gone; -1: not to be had */
	int pidfd; /* borrowed */
	pid_t pid;
	uid_t uid; /* whose it was when it was opened; root's where it may not be dumped */
	gid_t gid;
};

/* -ESRCH: it is gone. */
int proc_dir_open(pid_t pid, int pidfd, struct proc_dir *ret);
void proc_dir_done(struct proc_dir *p);

bool proc_dir_alive(const struct proc_dir *p);

/*
 * 0: it is still the same owner's; -EPERM: it is not, as a set-user-ID program; -ESRCH: it is gone; -EAGAIN: its first
 * thread has ended, and others go on, perhaps to execute a program under its number: that cannot be told now.
 */
int proc_dir_check_owner(const struct proc_dir *p);

/* The number that it has for itself, in its own namespace. */
pid_t proc_dir_inner_pid(const struct proc_dir *p);

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
	bool crowded; /* there are more than are listed */
};

int proc_maps_read(const struct proc_dir *p, struct proc_maps *ret);
void proc_maps_done(struct proc_maps *m);

/* The first that ends behind addr; the one around addr; NULL. */
const struct proc_map *proc_maps_next(const struct proc_maps *m, uint64_t addr);
const struct proc_map *proc_maps_find(const struct proc_maps *m, uint64_t addr);

/*
 * The file of a mapping, for reading. Through the mapping itself; where that is not allowed, by its path beneath the
 * process's root and compared with what is mapped. -EINVAL: no regular file; -EMEDIUMTYPE: its file system might not
 * answer; -ESTALE: another file has its name now.
 */
int proc_dir_open_map(const struct proc_dir *p, const struct proc_map *m, int *ret_fd);

/*
 * A regular file by its path beneath the process's root, also when the process is gone: neither it nor a directory on
 * its way is a link, or on a file system that might not answer.
 */
int proc_dir_open_file(const struct proc_dir *p, const char *path, int *ret_fd, struct file_identity *ret_id);

/*
 * What the process calls the code that it makes: /tmp/perf-PID.map beneath its own root, which has to be uid's. Its
 * size is that of now. -EFBIG: beyond all reason.
 */
int proc_dir_open_perf_map(pid_t pid, int pidfd, uid_t uid, int *ret_fd, uint64_t *ret_size);

/* Of each page of [start, end): */
enum { PROC_PAGE_PRESENT = 1, PROC_PAGE_FILE = 2 };
int proc_dir_read_pages(const struct proc_dir *p, uint64_t start, uint64_t end, uint8_t *ret);
uint64_t proc_page_size(void);

/* For pread() at addresses. */
int proc_dir_open_memory(const struct proc_dir *p);

#endif
