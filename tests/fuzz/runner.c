/* SPDX-License-Identifier: MIT */
/*
 * daemon/runner: the message that csight-runner receives. A request that it accepts is what csightd would send for that
 * command, byte for byte, and no request of root is executed.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/runner.h"
#include "daemon/runner/protocol.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/fuzz/fuzz.h"

static char path[] = "/dev/shm/csight-fuzz-XXXXXX/socket";
static int listener = -1;

static void remove_socket(void)
{
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
}

static void begin(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char *slash = strrchr(path, '/');

	if (listener >= 0)
		return;
	log_setup("fuzz", LOG_EMERG);
	*slash = 0;
	fuzz_require(mkdtemp(path) != NULL);
	*slash = '/';
	strcpy(a.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	fuzz_require(listener >= 0 && bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0 &&
		     listen(listener, 1) == 0);
	atexit(remove_socket);
}

static void check_same(const struct runner_command *c, const char *data, size_t size)
{
	char message[RUNNER_MESSAGE_MAX];
	pid_t pid;
	int fd = runner_start(path, c, &pid), peer;

	fuzz_require(fd >= 0 && pid == 0);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	fuzz_require(peer >= 0 && recv(peer, message, sizeof(message), 0) == (ssize_t)size);
	fuzz_require(memcmp(message, data, size) == 0);
	close(peer);
	close(fd);
}

/* The whole service, with the request of a user whose commands are never executed. */
static void serve(const char *data, size_t size)
{
	char message[RUNNER_MESSAGE_MAX];
	struct runner_request r;
	int pair[2];

	memcpy(message, data, size);
	if (size >= sizeof(r)) {
		memcpy(&r, message, sizeof(r));
		r.uid = 0;
		memcpy(message, &r, sizeof(r));
	}
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	fuzz_require(io_send_fds(pair[0], message, size, NULL, 0) == 0);
	close(pair[0]);
	runner_serve(pair[1], 1);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct runner_command c;
	const char *text = (const char *)data;

	if (size < 1 || size > RUNNER_MESSAGE_MAX)
		return 0;
	begin();
	if (runner_parse(text, size, &c)) {
		fuzz_require(c.n_environment <= RUNNER_ENVIRONMENT_MAX && strlen(c.about) < size);
		check_same(&c, text, size);
	}
	serve(text, size);
	return 0;
}

static void seed(const struct runner_request *r, const char *strings, size_t size)
{
	char message[512];

	fuzz_require(sizeof(*r) + size <= sizeof(message));
	memcpy(message, r, sizeof(*r));
	memcpy(message + sizeof(*r), strings, size);
	fuzz_seed(message, sizeof(*r) + size);
}

void fuzz_seeds(void)
{
	static const char strings[] = "trigger 7\0echo done\0CSIGHT_ID=20260101T000000-abcdef\0CSIGHT_PID=7";
	static const char many[] = "t\0c\0A=\0B=\0C=\0D=\0E=\0F=\0G=\0H=\0I=\0J=\0K=\0L=\0M=\0N=\0O=\0P=";

	seed(&(struct runner_request){ RUNNER_VERSION, 1000, 2 }, strings, sizeof(strings));
	seed(&(struct runner_request){ RUNNER_VERSION, 1000, 2 }, strings, sizeof(strings) - 1);
	seed(&(struct runner_request){ RUNNER_VERSION, 1000, 16 }, many, sizeof(many));
	seed(&(struct runner_request){ RUNNER_VERSION, 1000, 0 }, "a\0", 3);
	seed(&(struct runner_request){ RUNNER_VERSION + 1, 1000, 17 }, "", 1);
}
