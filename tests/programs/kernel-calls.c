/* SPDX-License-Identifier: MIT */
/* 1,000 system calls, ten of different kinds in turn. They wait for nothing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { ROUNDS = 100 };

static apart long ten_calls(int zero)
{
	char bytes[64];
	struct stat st;
	struct utsname names;
	struct timespec used;
	void *page;
	int fd;

	syscall(SYS_getppid);
	syscall(SYS_read, zero, bytes, sizeof(bytes));
	syscall(SYS_fstat, zero, &st);
	syscall(SYS_uname, &names);
	fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY);
	syscall(SYS_write, fd, bytes, sizeof(bytes));
	syscall(SYS_close, fd);
	page = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	syscall(SYS_munmap, page, 4096);
	syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_nsec;
}

int main(void)
{
	int zero = open("/dev/zero", O_RDONLY);
	long sum = 0;

	for (int i = 0; i < ROUNDS; i++)
		sum += ten_calls(zero);
	return result((uint64_t)sum);
}
