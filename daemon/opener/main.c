/* SPDX-License-Identifier: MIT */
/*
 * csight-opener opens files for csightd with the rights of their users, makes sockets of the process connector, and
 * holds gates before programs (daemon/opener.h). Each request is a connection, which a process of its own serves: for a
 * file, that process becomes the user. A process that waits for a file system that never answers delays no other
 * request. csight-opener accepts requests of root alone, or of its own user, and ends when it is idle.
 */
#include "config.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/activation.h"
#include "daemon/opener.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

enum { CHILDREN_MAX = 256, IDLE_MS = 10000, CHECK_MS = 200, EXIT_USAGE = 2 };

/* Starts a process that serves a client with the right to requests. Returns true if one was started. */
static bool start_serving(int listener, int client)
{
	pid_t pid = activation_permits(client) ? fork() : -1;

	if (pid == 0) {
		close(listener);
		_exit(opener_serve(client) < 0);
	}
	return pid > 0;
}

/* Accepts connections. Returns 0 after IDLE_MS without a request or a running process, or negative errno. */
static int accept_requests(int listener)
{
	unsigned n = 0;

	for (;;) {
		struct pollfd p = { n < CHILDREN_MAX ? listener : -1, POLLIN, 0 };
		bool idle = n == 0;
		int rc = poll(&p, 1, idle ? IDLE_MS : CHECK_MS), client;

		if (rc < 0 && errno != EINTR)
			return -errno;
		while (n && waitpid(-1, NULL, WNOHANG) > 0)
			n--;
		if (rc == 0 && idle)
			return 0;
		if (rc <= 0 || !(p.revents & POLLIN))
			continue;
		client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0)
			continue;
		n += start_serving(listener, client);
		close(client);
	}
}

static void usage(void)
{
	puts("usage: csight-opener [--socket PATH]\n"
	     "\n"
	     "Opens files for csightd with the rights of their users. Without --socket, systemd passes the socket.\n"
	     "\n"
	     "  --socket PATH  listen there\n"
	     "  --help, --version");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	const char *path = NULL;
	int c, listener, rc;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (c) {
		case 's':
			path = optarg;
			break;
		case 'h':
			usage();
			return EXIT_SUCCESS;
		case 'v':
			puts("csight-opener " PACKAGE_VERSION);
			return EXIT_SUCCESS;
		default:
			return EXIT_USAGE;
		}
	}
	log_setup("csight-opener", LOG_INFO);
	umask(077);
	signal(SIGPIPE, SIG_IGN);
	listener = activation_listen(path);
	if (listener < 0) {
		log_error("cannot listen: %s; csight-opener.socket starts it, or --socket names one",
			  strerror(-listener));
		return EXIT_USAGE;
	}
	rc = accept_requests(listener);
	if (rc < 0)
		log_error("cannot wait for requests: %s", strerror(-rc));
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
