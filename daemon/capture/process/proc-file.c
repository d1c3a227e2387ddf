/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/capture/process/proc-file.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

enum { STAT_STATE = 3, STAT_PARENT = 4, STAT_START = 22 };

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

const char *proc_file_stat_field(const char *text, unsigned field)
{
	/* The name, which is the second field, may contain any bytes. */
	const char *at = strrchr(text, ')');

	for (unsigned n = 2; at && n < field; n++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* Reads a numeric field of /proc/PID/stat. */
static int read_stat(pid_t pid, unsigned field, uint64_t *ret)
{
	char path[32], text[1024];
	unsigned long long number;
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (proc_file_read(AT_FDCWD, path, text, sizeof(text)) < 0 || !(at = proc_file_stat_field(text, field)) ||
	    sscanf(at, "%llu", &number) != 1)
		return -ESRCH;
	*ret = number;
	return 0;
}

bool proc_file_is_zombie(pid_t pid)
{
	char path[32], text[1024];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (proc_file_read(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	state = proc_file_stat_field(text, STAT_STATE);
	return state && *state == 'Z';
}

int proc_file_exe(pid_t pid, char *ret, size_t room)
{
	static const char mark[] = " (deleted)";
	const size_t size = sizeof(mark) - 1;
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, ret, room - 1);
	if (n < 0)
		return -errno;
	if ((size_t)n > size && memcmp(ret + n - size, mark, size) == 0)
		n -= (ssize_t)size;
	ret[n] = '\0';
	return 0;
}

int proc_file_start(pid_t pid, uint64_t *ret)
{
	return read_stat(pid, STAT_START, ret);
}

int proc_file_parent(pid_t pid, pid_t *ret)
{
	uint64_t parent;
	int rc = read_stat(pid, STAT_PARENT, &parent);

	if (rc == 0)
		*ret = (pid_t)parent;
	return rc;
}
