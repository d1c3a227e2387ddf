/* SPDX-License-Identifier: MIT */
/* csight-decode: decodes recorded trace for csightd and `csight decode`, in a process without privileges. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/decode/server.h"
#include "lib/base/io.h"
#include "lib/etm/engine.h"

/*
 * In place of the C library's, for libelf, too: a job whose file is locked could not be killed, and the server of all
 * jobs would be.
 */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *ret, size_t size, off_t at)
{
	ssize_t n = io_pread_bounded(fd, ret, size, at);

	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

static void print_usage(FILE *to)
{
	fputs("usage: csight-decode [--help | --version]\n"
	      "\n"
	      "Decodes recorded CoreSight trace, each job in an unprivileged child process.\n"
	      "csightd and `csight decode` start this program and pass inputs and outputs over a\n"
	      "socket (file descriptor 3); it has no other use. To decode a file, run:\n"
	      "\n"
	      "  csight decode [--to FORMAT] [-o FILE] INPUT\n",
	      to);
}

static void print_version(void)
{
	const char *warning;

	printf("csight-decode %s\nOpenCSD %s\n", PACKAGE_VERSION, opencsd_version(&warning));
	if (warning)
		printf("warning: %s\n", warning);
}

int main(int argc, char **argv)
{
	int rc = -ENOTSOCK;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		print_usage(stdout);
		return EXIT_SUCCESS;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		print_version();
		return EXIT_SUCCESS;
	}
	if (argc == 2 && strcmp(argv[1], "--server") == 0)
		rc = server_run();
	if (rc == -ENOTSOCK) {
		print_usage(stderr);
		return 2;
	}
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
