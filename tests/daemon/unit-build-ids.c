/* SPDX-License-Identifier: MIT */
/* daemon/build-ids.c: how many jobs of csight-decode read build-ids at a time. The test is the server of the jobs. */
#include "config.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/build-ids.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/util.h"
#include "lib/decoder/decoder.h"
#include "tests/unit.h"

enum { QUERIES = 40, AT_A_TIME = 32 };

static struct event_base *base;
static struct build_id_file files[QUERIES];
static unsigned ended, failed;
static int server; /* its end of the connection */
static int jobs[QUERIES], n_jobs;

static void on_child(void *data, uint64_t job, int status)
{
}

static void on_server(void *data)
{
}

static void on_ended(void *data, const char *reason)
{
	ended++;
	failed += reason != NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	return bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0 ? fd : -1;
}

/* Accepts the jobs that have been submitted. */
static void take_jobs(void)
{
	char text[4096];

	for (;;) {
		size_t n_fds = 1;
		int fd = -1;
		ssize_t n = io_receive_fds(server, text, sizeof(text) - 1, &fd, &n_fds, MSG_DONTWAIT);

		if (n <= 0)
			return;
		text[n] = 0;
		if (strstr(text, "\"job\""))
			jobs[n_jobs++] = fd;
		else
			closep(&fd);
	}
}

static void answer(int job)
{
	static const char text[] = "{\"type\":\"result\",\"build_ids\":[\"00112233\"]}";

	const unsigned before = ended;
	char start[4096];
	size_t n_fds = 1;
	int fd = -1;

	CHECK(io_receive_fds(job, start, sizeof(start), &fd, &n_fds, 0) > 0);
	closep(&fd);
	CHECK_EQ(io_send_fds(job, text, sizeof(text) - 1, NULL, 0), 0);
	close(job);
	while (ended == before)
		event_base_loop(base, EVLOOP_ONCE);
}

int main(void)
{
	struct decode_server_options o = { .user = "", .events = { on_child, on_server, on_server } };
	char dir[] = "/tmp/csight-build-ids-XXXXXX", path[64];
	struct decode_server *d;
	struct build_ids *b;
	int listener;

	log_setup("unit-build-ids", LOG_ERR);
	base = o.base = event_base_new();
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/socket", dir);
	o.socket = path;
	listener = listen_at(path);
	if (listener < 0 || decode_server_new(&o, &d) < 0 || build_ids_new(base, d, &b) < 0)
		return 1;
	server = accept(listener, NULL, NULL);
	for (int i = 0; i < QUERIES; i++) {
		files[i] = (struct build_id_file){ .fd = STDIN_FILENO, .identity = { .inode = (uint64_t)i + 1 } };
		build_ids_read(b, &(struct build_ids_query){ .files = &files[i], .n = 1, .ended = on_ended });
	}
	take_jobs();
	CHECK_EQ(n_jobs, AT_A_TIME);
	for (int i = 0; i < n_jobs; i++) {
		answer(jobs[i]);
		take_jobs();
		if (i == 0)
			CHECK_EQ(n_jobs, AT_A_TIME + 1);
	}
	CHECK_EQ(n_jobs, QUERIES);
	CHECK_EQ(ended, QUERIES);
	CHECK_EQ(failed, 0);
	CHECK(files[QUERIES - 1].known && files[QUERIES - 1].size == 4);
	build_ids_stop(b);
	build_ids_free(b);
	decode_server_free(d);
	event_base_free(base);
	close(server);
	close(listener);
	unlink(path);
	CHECK_EQ(rmdir(dir), 0);
	return unit_end();
}
