/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "daemon/capture/process/file-identity.h"
#include "lib/base/util.h"

int file_identify(int fd, struct file_identity *ret)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_MNT_ID, &stx) < 0)
		return -errno;
	*ret = (struct file_identity){
		.major = stx.stx_dev_major,
		.minor = stx.stx_dev_minor,
		.inode = stx.stx_ino,
		.size = stx.stx_size,
		.mtime = (uint64_t)stx.stx_mtime.tv_sec * 1000000000u + stx.stx_mtime.tv_nsec,
		.ctime = (uint64_t)stx.stx_ctime.tv_sec * 1000000000u + stx.stx_ctime.tv_nsec,
		.links = stx.stx_nlink,
		.mount = stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id : 0,
		.uid = stx.stx_uid,
		.mode = stx.stx_mode,
		.regular = S_ISREG(stx.stx_mode),
		.directory = S_ISDIR(stx.stx_mode),
	};
	return 0;
}

/*
 * Returns 1 if the file is on a file system of the kernel, 0 if on one in user space, -ENOENT if on none of these
 * mounts. The device of a file may be another than that of its mount, as on Btrfs.
 */
static int on_kernel_mount(const char *mounts, const struct file_identity *id, bool theirs)
{
	_cleanup_fclose_ FILE *f = fopen(mounts, "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	while (f && getline(&line, &room, f) > 0) {
		unsigned long long mount;
		unsigned major, minor;
		const char *type = strstr(line, " - ");

		if (!type || sscanf(line, "%llu %*u %u:%u", &mount, &major, &minor) != 3 ||
		    (id->mount ? mount != id->mount : major != id->major || minor != id->minor))
			continue;
		/* A user can mount an overlay over a file system in user space, in namespaces of his own. */
		return strncmp(type + 3, "fuse", 4) != 0 && !(theirs && strncmp(type + 3, "overlay ", 8) == 0);
	}
	return -ENOENT;
}

static bool other_user_namespace(pid_t pid)
{
	char path[64], ours[64] = "", theirs[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return readlink("/proc/self/ns/user", ours, sizeof(ours) - 1) < 0 ||
	       readlink(path, theirs, sizeof(theirs) - 1) < 0 || strcmp(ours, theirs) != 0;
}

bool file_kernel_served(int fd, const struct file_identity *id, pid_t pid)
{
	char mounts[64];
	int rc;

	/* Only files in shared memory have seals. */
	if (fcntl(fd, F_GET_SEALS) >= 0)
		return true;
	rc = on_kernel_mount("/proc/self/mountinfo", id, false);
	if (rc == -ENOENT && pid) {
		snprintf(mounts, sizeof(mounts), "/proc/%d/mountinfo", (int)pid);
		rc = on_kernel_mount(mounts, id, other_user_namespace(pid));
	}
	return rc == -ENOENT ? id->major != 0 : rc > 0;
}

bool file_kernel_served_for_sure(int fd, const struct file_identity *id, pid_t pid)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)
		return false;
	/* virtiofs of a virtual machine has the number of FUSE; an overlay may be over a file system in user space. */
	return (fs.f_type != FUSE_SUPER_MAGIC && fs.f_type != OVERLAYFS_SUPER_MAGIC) || file_kernel_served(fd, id, pid);
}
