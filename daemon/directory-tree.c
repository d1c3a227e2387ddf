#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/directory-tree.h"
#include "lib/base/util.h"

enum { DEPTH = 4 };

static int walk(int parent, const char *name, bool removing, unsigned depth, uint64_t *size)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		rc = -errno;
		closep(&fd);
		return rc;
	}
	while (rc == 0 && (e = readdir(dir))) {
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			rc = errno == ENOENT ? 0 : -errno;
		else if (S_ISDIR(st.st_mode))
			rc = depth ? walk(fd, e->d_name, removing, depth - 1, size) : -ELOOP;
		else if (removing)
			rc = unlinkat(fd, e->d_name, 0) < 0 ? -errno : 0;
		else
			*size += (uint64_t)st.st_size;
	}
	if (rc == 0 && removing && unlinkat(parent, name, AT_REMOVEDIR) < 0)
		rc = -errno;
	return rc;
}

int directory_tree_size(int dir, uint64_t *ret)
{
	uint64_t size = 0;
	int rc = walk(dir, ".", false, DEPTH, &size);

	if (rc == 0)
		*ret = size;
	return rc;
}

int directory_tree_remove(int parent, const char *name)
{
	uint64_t unused = 0;

	return walk(parent, name, true, DEPTH, &unused);
}
