/* SPDX-License-Identifier: MIT */
/*
 * csight-runner runs the commands of triggers for csightd (daemon/runner.h). It accepts requests of root alone, or of
 * its own user. systemd starts one for each connection; a csightd that is not root starts it itself.
 */
#include "config.h"

#include <getopt.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/activation.h"
#include "daemon/runner.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"

enum { EXIT_USAGE = 2, SECONDS = 60, SECONDS_MAX = 3600 };

static int serve(int client, unsigned seconds)
{
	int rc = activation_permits(client) ? runner_serve(client, seconds) : -EPERM;

	if (rc < 0)
		log_error("cannot serve a request: %s", strerror(-rc));
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Accepts connections, and serves each in a process of its own. Returns negative errno when that fails. */
static int listen_at(const char *path, unsigned seconds)
{
	int listener = activation_listen(path), client;

	if (listener < 0)
		return listener;
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0 && errno != EINTR)
			return -errno;
		if (client >= 0 && fork() == 0) {
			signal(SIGCHLD, SIG_DFL);
			close(listener);
			_exit(serve(client, seconds));
		}
		close(client);
	}
}

static void usage(void)
{
	puts("usage: csight-runner [--socket PATH] [--seconds N]\n"
	     "\n"
	     "Runs the commands of triggers for csightd, as their users. Without --socket, a connection is passed as\n"
	     "descriptor 3.\n"
	     "\n"
	     "  --socket PATH  listen there\n"
	     "  --seconds N    end a command after this time, default 60\n"
	     "  --help, --version");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	const char *path = NULL;
	uint64_t seconds = SECONDS;
	int c, rc;

	log_setup("csight-runner", LOG_INFO);
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (c) {
		case 's':
			path = optarg;
			break;
		case 't':
			if (parse_u64(optarg, SECONDS_MAX, &seconds) < 0 || !seconds) {
				log_error("--seconds: \"%s\" is not a number from 1 to %d", esc(optarg), SECONDS_MAX);
				return EXIT_USAGE;
			}
			break;
		case 'h':
			usage();
			return EXIT_SUCCESS;
		case 'v':
			puts("csight-runner " PACKAGE_VERSION);
			return EXIT_SUCCESS;
		default:
			return EXIT_USAGE;
		}
	}
	umask(077);
	signal(SIGPIPE, SIG_IGN);
	if (!path)
		return serve(RUNNER_FD, (unsigned)seconds);
	rc = listen_at(path, (unsigned)seconds);
	log_error("cannot listen at %s: %s", path, strerror(-rc));
	return EXIT_FAILURE;
}
