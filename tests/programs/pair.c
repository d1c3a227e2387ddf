/* SPDX-License-Identifier: MIT */
/*
 * A client and a server, two processes with a socket between them: pair COUNT. The client makes COUNT requests, one
 * after the other: each is sent in send_request(), received in receive_request(), and answered. When all are, "ready"
 * is printed, and both wait until standard input ends.
 */
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "program.h"

static __attribute__((noinline)) long send_request(int fd, uint64_t n)
{
	long rc = write(fd, &n, sizeof(n));

	__asm__ volatile("" ::: "memory");
	return rc;
}

static __attribute__((noinline)) long receive_request(int fd, uint64_t *ret)
{
	long rc = read(fd, ret, sizeof(*ret));

	__asm__ volatile("" ::: "memory");
	return rc;
}

static int serve(int fd)
{
	uint64_t n;

	while (receive_request(fd, &n) == sizeof(n))
		if (write(fd, &n, 1) != 1)
			return 1;
	return 0;
}

static int request(int fd, uint64_t count)
{
	char answer;

	for (uint64_t n = 0; n < count; n++)
		if (send_request(fd, n) != sizeof(n) || read(fd, &answer, 1) != 1)
			return 1;
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	while (read(STDIN_FILENO, &answer, 1) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return 1;
	switch (fork()) {
	case -1:
		return 1;
	case 0:
		close(fds[1]);
		return serve(fds[0]);
	default:
		close(fds[0]);
		return request(fds[1], count);
	}
}
