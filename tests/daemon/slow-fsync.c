/* SPDX-License-Identifier: MIT */
/* LD_PRELOAD: fsync() takes 2 seconds, as on a disk that is in use. */
#include <time.h>
#include <unistd.h>

int fsync(int fd)
{
	const struct timespec pause = { 2, 0 };

	nanosleep(&pause, NULL);
	return fdatasync(fd);
}
