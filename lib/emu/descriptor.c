/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/emu/descriptor.h"

enum { FD_LEAST = 600 };

int descriptor_move(int fd)
{
	int high = fd < 0 ? -errno : -EINVAL;

	/* The program's limit may be lower. */
	for (int least = FD_LEAST; fd >= 0 && high < 0 && least > STDERR_FILENO; least /= 2)
		high = io_move_fd(fd, least);
	if (fd >= 0 && high < 0)
		close(fd);
	return high;
}

struct descriptor descriptor_keep(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return (struct descriptor){ 0 };
	return (struct descriptor){ .fd = fd, .device = st.st_dev, .inode = st.st_ino };
}

int descriptor_fd(const struct descriptor *d)
{
	struct descriptor now = descriptor_keep(d->fd);

	return d->inode && now.inode == d->inode && now.device == d->device ? d->fd : -EBADF;
}

void descriptor_close(struct descriptor *d)
{
	int fd = descriptor_fd(d);

	if (fd >= 0)
		close(fd);
	*d = (struct descriptor){ 0 };
}
