/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>

#include "daemon/capture/process/proc-file.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

int proc_file_read(int dir, const char *path, char *ret, size_t room)
{
	_cleanup_close_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = io_read(fd, ret, room - 1);
	if (n < 0)
		return (int)n;
	ret[n] = '\0';
	return 0;
}

long long proc_file_number(const char *path)
{
	char text[64];

	return proc_file_read(AT_FDCWD, path, text, sizeof(text)) < 0 ? -1 : atoll(text);
}
