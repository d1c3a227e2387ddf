/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

#include "lib/base/io.h"
#include "lib/base/util.h"

/* Of Linux 5.14; absent from glibc before 2.35. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { LOCKED_MS = 200, FETCHED_MAX = 1 << 20 };

int io_write(int fd, const void *data, size_t size)
{
	const uint8_t *at = data;

	while (size) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

int io_pwrite(int fd, const void *data, size_t size, off_t offset)
{
	const uint8_t *at = data;

	while (size) {
		ssize_t n = pwrite(fd, at, size, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		offset += n;
		size -= (size_t)n;
	}
	return 0;
}

int io_store(void *at, const void *data, size_t size)
{
	const struct iovec from = { (void *)data, size }, to = { at, size };
	ssize_t n = process_vm_writev(getpid(), &from, 1, &to, 1, 0);

	return n < 0 ? -errno : (size_t)n < size ? -EFAULT : 0;
}

ssize_t io_read(int fd, void *ret, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = read(fd, (uint8_t *)ret + have, size - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

ssize_t io_pread(int fd, void *ret, size_t size, uint64_t at)
{
	size_t have = 0;

	if (at > INT64_MAX - size)
		return 0;
	while (have < size) {
		ssize_t n = pread(fd, (uint8_t *)ret + have, size - have, (off_t)(at + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* Reads pages from the disk by page faults, which take no lock of the file. False: this cannot be done. */
static bool fetch_pages(int fd, off_t at, size_t size)
{
	off_t start = at & -(off_t)sysconf(_SC_PAGESIZE);
	size_t length = (size_t)(at - start) + MIN(size, (size_t)FETCHED_MAX);
	void *pages = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, start);
	bool done;

	if (pages == MAP_FAILED)
		return errno != ENODEV;
	done = madvise(pages, length, MADV_POPULATE_READ) == 0 || errno != EINVAL;
	munmap(pages, length);
	return done;
}

/* Reads what is in memory. Linux 5.9 and 5.10 return 0 also before the end of a file: that is EAGAIN here. */
static ssize_t read_cached(int fd, const struct iovec *to, off_t at)
{
	ssize_t n = preadv2(fd, to, 1, at, RWF_NOWAIT);
	struct stat st;

	if (n != 0 || fstat(fd, &st) < 0 || at >= st.st_size)
		return n < 0 ? -errno : n;
	return -EAGAIN;
}

ssize_t io_pread_bounded(int fd, void *ret, size_t size, off_t at)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	unsigned waits = 0;
	size_t have = 0;

	while (have < size && waits < LOCKED_MS) {
		const struct iovec to = { (uint8_t *)ret + have, size - have };
		off_t from = at + (off_t)have;
		ssize_t n = read_cached(fd, &to, from);

		if (n == -EAGAIN && fetch_pages(fd, from, to.iov_len)) {
			if (waits++ > 0)
				clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
			continue;
		}
		if ((n == -EAGAIN || n == -EOPNOTSUPP) && (n = preadv2(fd, &to, 1, from, 0)) < 0)
			n = -errno;
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return have ? (ssize_t)have : n;
		have += (size_t)n;
		waits = 0;
	}
	return have || !size ? (ssize_t)have : -EBUSY;
}

int io_open_beneath(int dirfd, const char *name, int *ret_fd)
{
	_cleanup_close_ int dir = -1, fd = -1;
	struct stat st;

	/*
	 * Open one component at a time, since not every kernel has openat2(): one that is no link and not ".."
	 * descends.
	 */
	for (;;) {
		size_t n = strcspn(name, "/");
		char step[NAME_MAX + 1];
		bool last = !name[n];
		int from = dir >= 0 ? dir : dirfd, next;

		if (n == 0 || n > NAME_MAX)
			return n ? -ENAMETOOLONG : -EINVAL;
		memcpy(step, name, n);
		step[n] = 0;
		if (strcmp(step, "..") == 0)
			return -EINVAL;
		next =
		    openat(from, step,
			   (last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		if (last) {
			fd = next;
			break;
		}
		closep(&dir);
		dir = next;
		name += n + 1;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool io_is_elf(int fd)
{
	char start[4];

	return io_pread_bounded(fd, start, sizeof(start), 0) == sizeof(start) &&
	       memcmp(start, "\177ELF", sizeof(start)) == 0;
}

int io_read_file(int dirfd, const char *path, size_t limit, char **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	_cleanup_free_ char *data = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > limit)
		return -EFBIG;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	n = io_read(fd, data, (size_t)st.st_size);
	if (n < 0)
		return (int)n;
	data[n] = 0;
	*ret = TAKE_PTR(data);
	if (ret_size)
		*ret_size = (size_t)n;
	return 0;
}

int io_temporary(void)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	/* Not every file system supports O_TMPFILE. */
	if (fd < 0)
		fd = memfd_create("csight-temporary", MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int io_write_file(int dirfd, const char *path, const void *data, size_t size, mode_t mode)
{
	_cleanup_close_ int fd = -1;
	char tmp[256];
	int rc;

	if ((size_t)snprintf(tmp, sizeof(tmp), "%s.tmp", path) >= sizeof(tmp))
		return -ENAMETOOLONG;
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	/* A write that was interrupted left it; or it is no file, and to open it could block. */
	if (fd < 0 && errno == EEXIST && unlinkat(dirfd, tmp, 0) == 0)
		fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	rc = io_write(fd, data, size);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (rc == 0 && renameat(dirfd, tmp, dirfd, path) < 0)
		rc = -errno;
	if (rc < 0)
		unlinkat(dirfd, tmp, 0);
	return rc;
}

int io_connect(const char *path, int flags, unsigned seconds)
{
	const struct timeval limit = { (time_t)seconds, 0 };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : TAKE_FD(fd);
}

int io_send_fds(int fd, const void *data, size_t size, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int) * IO_FDS_MAX)];
	} control = { 0 };
	struct iovec iov = { (void *)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (n_fds > IO_FDS_MAX)
		return -EINVAL;
	if (n_fds) {
		struct cmsghdr *c;

		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	/* On a stream the descriptors went with the first byte. */
	while ((size_t)n < size) {
		ssize_t more = send(fd, (const uint8_t *)data + n, size - (size_t)n, MSG_NOSIGNAL);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			return -errno;
		n += more;
	}
	return 0;
}

ssize_t io_take_fds(int fd, void *ret, size_t size, int *fds, size_t *n_fds, int flags)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int) * IO_FDS_MAX)];
	} control;
	size_t capacity = MIN(*n_fds, (size_t)IO_FDS_MAX), have = 0;
	struct iovec iov = { ret, size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_LEN(sizeof(int) * capacity) };
	ssize_t n;

	*n_fds = 0;
	do
		n = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), capacity - have);
		if (count)
			memcpy(fds + have, CMSG_DATA(c), count * sizeof(int));
		have += count;
	}
	*n_fds = have;
	return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EMSGSIZE : n;
}

ssize_t io_receive_fds(int fd, void *ret, size_t size, int *fds, size_t *n_fds, int flags)
{
	size_t have = n_fds ? *n_fds : 0;
	ssize_t n = io_take_fds(fd, ret, size, fds, &have, flags);

	if (n == -EMSGSIZE || n == 0)
		while (have > 0)
			closep(&fds[--have]);
	if (n >= 0 && n_fds)
		*n_fds = have;
	return n;
}

int io_move_fd(int fd, int least)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, least);

	if (high < 0)
		return -errno;
	close(fd);
	return high;
}
