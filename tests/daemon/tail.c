/* SPDX-License-Identifier: MIT */
/* tail PID [MS]: copies the tail of a process, of at most so many ms, to standard output; for tests/daemon/tail.test.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/csight/csight.h"

int main(int argc, char **argv)
{
	struct csight_tail_options options = { .size = sizeof(options) };
	static char bytes[64 << 10];
	struct csight *c = NULL;
	ssize_t n;
	int fd;

	if (argc < 2 || csight_open(NULL, &c) < 0)
		return 2;
	if (argc > 2)
		options.max_time = strtoull(argv[2], NULL, 10) * 1000000;
	if (csight_tail(c, atoi(argv[1]), argc > 2 ? &options : NULL, &fd) < 0) {
		fprintf(stderr, "%s\n", csight_error(c));
		csight_close(c);
		return 1;
	}
	csight_close(c);
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (write(STDOUT_FILENO, bytes, (size_t)n) != n)
			return 2;
	close(fd);
	return n < 0 ? 2 : 0;
}
