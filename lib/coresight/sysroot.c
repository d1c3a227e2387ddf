/* SPDX-License-Identifier: MIT */
#include "lib/coresight/sysroot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/base/parse.h"

enum { LINKS_MAX = 40 };

int sysroot_open(const char *root, int *ret_fd)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* Removes the last component. */
static void step_up(char *at)
{
	char *slash = strrchr(at, '/');

	*(slash ? slash : at) = 0;
}

static int step_down(char *at, const char *name, size_t n)
{
	size_t have = strlen(at);

	if (have + 1 + n >= SYSROOT_PATH_MAX)
		return -ENAMETOOLONG;
	if (have)
		at[have++] = '/';
	memcpy(at + have, name, n);
	at[have + n] = 0;
	return 0;
}

/*
 * If at is a link, puts its target before the remaining components in todo, and moves at to the directory to which the
 * target is relative. Returns 1 for a link, 0 otherwise.
 */
static int follow(int root, char *at, char *todo, size_t todo_size)
{
	char target[SYSROOT_PATH_MAX], rest[SYSROOT_PATH_MAX];
	ssize_t n = readlinkat(root, at, target, sizeof(target));

	if (n < 0)
		return errno == EINVAL ? 0 : -errno;
	if (n == sizeof(target))
		return -ENAMETOOLONG;
	target[n] = 0;
	strcpy(rest, todo);
	if ((size_t)snprintf(todo, todo_size, "%s/%s", target, rest) >= todo_size)
		return -ENAMETOOLONG;
	if (*target == '/')
		*at = 0;
	else
		step_up(at);
	return 1;
}

int sysroot_resolve(int root, const char *path, char ret[static SYSROOT_PATH_MAX])
{
	char todo[SYSROOT_PATH_MAX], at[SYSROOT_PATH_MAX] = "", step[NAME_MAX + 1];
	unsigned links = 0;

	if (strlen(path) >= sizeof(todo))
		return -ENAMETOOLONG;
	strcpy(todo, path);
	while (*todo) {
		size_t n = strcspn(todo, "/"), skip = n + strspn(todo + n, "/");
		int rc;

		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(step, todo, n);
		step[n] = 0;
		memmove(todo, todo + skip, strlen(todo + skip) + 1);
		if (n == 0 || strcmp(step, ".") == 0)
			continue;
		if (strcmp(step, "..") == 0) {
			step_up(at);
			continue;
		}
		rc = step_down(at, step, n);
		if (rc == 0)
			rc = follow(root, at, todo, sizeof(todo));
		if (rc < 0)
			return rc;
		if (rc > 0 && ++links > LINKS_MAX)
			return -ELOOP;
	}
	strcpy(ret, *at ? at : ".");
	return 0;
}

static int open_at(int root, const char *path, int flags, int *ret_fd)
{
	char at[SYSROOT_PATH_MAX];
	int rc = sysroot_resolve(root, path, at), fd;

	if (rc < 0)
		return rc;
	fd = openat(root, at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int sysroot_file(int root, const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int rc = open_at(root, path, 0, &fd);

	if (rc < 0)
		return rc;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int sysroot_text(int root, const char *path, char *ret, size_t size)
{
	_cleanup_close_ int fd = -1;
	int rc = sysroot_file(root, path, &fd);
	ssize_t n;

	if (rc < 0)
		return rc;
	/* sysfs and procfs do not report the size of a file's contents. */
	n = io_read(fd, ret, size);
	if (n < 0)
		return (int)n;
	if ((size_t)n == size)
		return -EFBIG;
	if (memchr(ret, 0, (size_t)n))
		return -EBADMSG;
	if (n && ret[n - 1] == '\n')
		n--;
	ret[n] = 0;
	return 0;
}

int sysroot_number(int root, const char *path, uint64_t *ret)
{
	char text[32];
	int rc = sysroot_text(root, path, text, sizeof(text));

	if (rc < 0)
		return rc == -EFBIG ? -EBADMSG : rc;
	return parse_u64(text, UINT64_MAX, ret) < 0 ? -EBADMSG : 0;
}

void sysroot_names_free(struct sysroot_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
	*names = (struct sysroot_names){ 0 };
}

static int add_name(struct sysroot_names *names, size_t *capacity, const char *name)
{
	if (names->n == SYSROOT_NAMES_MAX)
		return -EFBIG;
	if (array_reserve(names->list, names->n, capacity) < 0)
		return -ENOMEM;
	names->list[names->n] = strdup(name);
	if (!names->list[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

int sysroot_list(int root, const char *path, struct sysroot_names *ret)
{
	_cleanup_names_ struct sysroot_names names = { 0 };
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	size_t capacity = 0;
	int fd, rc = open_at(root, path, O_DIRECTORY, &fd);

	if (rc < 0)
		return rc;
	dir = fdopendir(fd);
	if (!dir) {
		closep(&fd);
		return -ENOMEM;
	}
	while (rc == 0 && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = add_name(&names, &capacity, e->d_name);
	if (rc < 0)
		return rc;
	if (names.n)
		qsort(names.list, names.n, sizeof(*names.list), by_version);
	*ret = names;
	names = (struct sysroot_names){ 0 };
	return 0;
}
