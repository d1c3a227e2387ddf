/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/directory-tree.h"
#include "lib/base/util.h"

enum { DEPTH_MAX = 4 };

uint64_t directory_tree_room(uint64_t size)
{
	return (size / DIRECTORY_TREE_BLOCK + 1) * DIRECTORY_TREE_BLOCK;
}

int directory_tree_unlink(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	closep(&fd);
	return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}

/* Adds the room of a directory and of all beneath it to *size, or removes the tree. depth: of directories below it. */
static int walk_tree(int parent, const char *name, bool removing, unsigned depth, uint64_t *size)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		rc = -errno;
		closep(&fd);
		return rc;
	}
	*size += directory_tree_room(0);
	while (rc == 0 && (e = readdir(dir))) {
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			rc = errno == ENOENT ? 0 : -errno;
		else if (S_ISDIR(st.st_mode))
			rc = depth ? walk_tree(fd, e->d_name, removing, depth - 1, size) : -ELOOP;
		else if (removing)
			rc = directory_tree_unlink(fd, e->d_name);
		else
			*size += directory_tree_room((uint64_t)st.st_size);
	}
	if (rc == 0 && removing && unlinkat(parent, name, AT_REMOVEDIR) < 0)
		rc = -errno;
	return rc;
}

int directory_tree_size(int dir, uint64_t *ret)
{
	uint64_t size = 0;
	int rc = walk_tree(dir, ".", false, DEPTH_MAX, &size);

	if (rc == 0)
		*ret = size;
	return rc;
}

int directory_tree_remove(int parent, const char *name)
{
	uint64_t unused = 0;

	return walk_tree(parent, name, true, DEPTH_MAX, &unused);
}
