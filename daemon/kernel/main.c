/* SPDX-License-Identifier: MIT */
/*
 * csight-kernel copies the code that the kernel executes for csightd, which has no right to read the kernel's memory,
 * and opens the kernel's log for it (kernel-copy.h, protocol.h). It accepts requests of root alone, or of its own user,
 * and ends when it is idle.
 */
#include "config.h"

#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/activation.h"
#include "daemon/kernel/kernel-copy.h"
#include "daemon/kernel/protocol.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

enum { IDLE_MS = 10000, REQUEST_SECONDS = 1, EXIT_USAGE = 2 };

static void serve(int client, const char *dir)
{
	const struct timeval limit = { REQUEST_SECONDS, 0 };
	struct kernel_response answer = { .version = KERNEL_VERSION };
	struct kernel_copy copy = { .fd = -1 };
	struct kernel_request request;
	struct reason why = { "" };
	size_t none = 0;
	ssize_t n;

	setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	n = io_receive_fds(client, &request, sizeof(request), NULL, &none, 0);
	if (n != sizeof(request) || request.version != KERNEL_VERSION)
		return;
	if (request.wanted == KERNEL_FOR_LOG) {
		copy.fd = open(KERNEL_LOG, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		answer.rc = copy.fd < 0 ? -errno : 0;
	} else {
		answer.rc = kernel_copy_make(dir, &copy, &why);
	}
	answer.size = copy.size;
	answer.start = copy.start;
	answer.length = copy.length;
	snprintf(answer.why, sizeof(answer.why), "%.*s", KERNEL_WHY_MAX - 1, why.text);
	io_send_fds(client, &answer, sizeof(answer), &copy.fd, copy.fd >= 0);
	closep(&copy.fd);
}

static int accept_requests(int listener, const char *dir)
{
	for (;;) {
		struct pollfd p = { listener, POLLIN, 0 };
		int rc = poll(&p, 1, IDLE_MS);
		_cleanup_close_ int client = -1;

		if (rc < 0 && errno != EINTR)
			return -errno;
		if (rc == 0)
			return 0;
		if (rc < 0)
			continue;
		client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (client >= 0 && activation_permits(client))
			serve(client, dir);
	}
}

static void usage(void)
{
	puts("usage: csight-kernel [--socket PATH] [--proc DIR]\n"
	     "\n"
	     "Copies the kernel's code for csightd, and opens its log. Without --socket, systemd passes the socket.\n"
	     "\n"
	     "  --socket PATH  listen there\n"
	     "  --proc DIR     where kcore and kallsyms are (default: /proc)\n"
	     "  --help, --version");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "proc", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	const char *path = NULL, *dir = "/proc";
	int c, listener, rc;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (c) {
		case 's':
			path = optarg;
			break;
		case 'p':
			dir = optarg;
			break;
		case 'h':
			usage();
			return EXIT_SUCCESS;
		case 'v':
			puts("csight-kernel " PACKAGE_VERSION);
			return EXIT_SUCCESS;
		default:
			return EXIT_USAGE;
		}
	}
	log_setup("csight-kernel", LOG_INFO);
	umask(077);
	signal(SIGPIPE, SIG_IGN);
	listener = activation_listen(path);
	if (listener < 0) {
		log_error("cannot listen: %s; csight-kernel.socket starts it, or --socket names one",
			  strerror(-listener));
		return EXIT_USAGE;
	}
	rc = accept_requests(listener, dir);
	if (rc < 0)
		log_error("cannot wait for requests: %s", strerror(-rc));
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
