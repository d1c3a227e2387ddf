/* SPDX-License-Identifier: MIT */
/*
 * A server with an event loop that takes a snapshot of itself, or of another process, when a request was slow.
 *
 *	cc -o server server.c $(pkg-config --cflags --libs libcsight)
 *	./server SOCKET [PID]
 *
 * Each line that a client sends is a number of milliseconds, which the request takes. The line "end" ends the server.
 */
#include <csight.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SLOW_MS = 50, EVERY_MS = 1000 };

static struct csight *recorder;
static pid_t recorded;

/* Called by csight_process() when the snapshot is decoded, or could not be taken. */
static void on_snapshot(void *userdata, const struct csight_result *result)
{
	(void)userdata;
	if (result->error < 0)
		printf("no snapshot: %s\n", result->message);
	else
		printf("snapshot %s is %s\n", csight_text(result->object, "id"), csight_text(result->object, "state"));
	fflush(stdout);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Serves a request. A snapshot delays the request by some microseconds, however long the daemon takes. */
static void serve(const char *line)
{
	struct csight_async_options o = { .size = sizeof(o), .done = on_snapshot, .every_ms = EVERY_MS };
	long from = now_ms();

	usleep((useconds_t)atoi(line) * 1000);
	if (now_ms() - from >= SLOW_MS)
		csight_snapshot_async(recorder, recorded, &o, NULL);
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strncpy(addr.sun_path, path, sizeof(addr.sun_path) - 1);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 16) < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static void watch(int loop, int fd, int events)
{
	struct epoll_event e = { .events = (unsigned)events, .data.fd = fd };

	if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e) < 0) {
		perror("epoll");
		exit(1);
	}
}

/* Serves the requests that a client has sent. Returns 0 if one of them ends the server, else 1. */
static int read_requests(int fd)
{
	char text[4096], *line, *rest = NULL;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	if (n <= 0) {
		close(fd);
		return 1;
	}
	text[n] = 0;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strcmp(line, "end") == 0)
			return 0;
		serve(line);
	}
	return 1;
}

int main(int argc, char **argv)
{
	int loop = epoll_create1(EPOLL_CLOEXEC), door, running = 1;
	struct epoll_event e;

	if (argc < 2 || csight_open(NULL, &recorder) < 0) {
		fprintf(stderr, "usage: server SOCKET [PID]\n");
		return 2;
	}
	recorded = argc > 2 ? (pid_t)atoi(argv[2]) : getpid();
	door = listen_at(argv[1]);
	watch(loop, door, EPOLLIN);
	watch(loop, csight_fd(recorder), EPOLLIN);
	while (running && epoll_wait(loop, &e, 1, -1) >= 0) {
		if (e.data.fd == door)
			watch(loop, accept(door, NULL, NULL), EPOLLIN);
		else if (e.data.fd == csight_fd(recorder))
			csight_process(recorder);
		else
			running = read_requests(e.data.fd);
	}
	csight_close(recorder);
	return 0;
}
