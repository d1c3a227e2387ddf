/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/nowait.h"
#include "lib/base/util.h"

enum { LOCKED_MS = 200, AT_ONCE = 1 << 20 };

/* Reads pages from the disk by page faults, which take no lock of the file. False: this cannot be done. */
static bool fetch_pages(int fd, off_t at, size_t size)
{
	off_t start = at & -(off_t)sysconf(_SC_PAGESIZE);
	size_t length = (size_t)(at - start) + MIN(size, (size_t)AT_ONCE);
	void *pages = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, start);
	bool done;

	if (pages == MAP_FAILED)
		return errno != ENODEV;
	done = madvise(pages, length, MADV_POPULATE_READ) == 0 || errno != EINVAL;
	munmap(pages, length);
	return done;
}

ssize_t nowait_pread(int fd, void *ret, size_t size, off_t at)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	struct iovec to = { ret, size };
	ssize_t n;

	for (unsigned i = 0; i < LOCKED_MS; i++) {
		n = preadv2(fd, &to, 1, at, RWF_NOWAIT);
		if (n >= 0 || (errno != EAGAIN && errno != EOPNOTSUPP))
			return n;
		if (errno == EOPNOTSUPP || !fetch_pages(fd, at, size))
			return preadv2(fd, &to, 1, at, 0);
		if (i > 0)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
	}
	errno = EBUSY;
	return -1;
}
