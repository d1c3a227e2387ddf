/* SPDX-License-Identifier: MIT */
/* lib/csight: asynchronous calls against a server that replies, does not read, or leaves; threads; fork. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/csight/csight.h"
#include "tests/unit.h"

static char directory[] = "/tmp/csight-unit-XXXXXX", path[64];

/* Messages that the server has received, the last one, and connections whose end it has seen. */
static struct seen {
	volatile unsigned n, ends;
	char last[512];
} * seen;

static int listen_at(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	unlink(path);
	if (s < 0 || bind(s, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(s, 16) < 0)
		_exit(99);
	return s;
}

/*
 * A message on a connection: "wait" in it gets no reply, "oneway" none either; "slow" one with progress before it,
 * "bad" an error, "Open" a descriptor; others a snapshot.
 */
static void reply(int client, const char *text)
{
	const char *answer = "{\"parameters\":{\"snapshot\":{\"id\":\"x\"},\"target\":{\"pid\":7}}}";
	int fd = -1;

	if (strstr(text, "\"slow\"")) {
		static const char phase[] =
		    "{\"parameters\":{\"phase\":\"decoding\",\"done\":1,\"total\":3},\"continues\":true}";

		io_send_fds(client, phase, sizeof(phase), NULL, 0);
	}
	if (strstr(text, "\"wait\"") || strstr(text, "\"oneway\""))
		return;
	if (strstr(text, "csight.Subscribe")) {
		static const char event[] = "{\"parameters\":{\"event\":\"armed\"},\"continues\":true}";

		for (int i = 0; i < 3; i++)
			io_send_fds(client, event, sizeof(event), NULL, 0);
		answer = "{\"error\":\"org.csight.TooSlow\"}";
	}
	if (strstr(text, "\"bad\""))
		answer = "{\"error\":\"org.csight.NoSuchSnapshot\",\"parameters\":{\"id\":\"bad\"}}";
	if (strstr(text, "csight.Open"))
		fd = memfd_create("test", MFD_CLOEXEC);
	io_send_fds(client, answer, strlen(answer) + 1, &fd, fd >= 0);
	closep(&fd);
}

/* Serves any number of connections; reads: false leaves messages in the socket. */
static void serve(int s, bool reads)
{
	struct pollfd fds[32] = { { s, POLLIN, 0 } };
	static char in[32][8192];
	size_t sizes[32] = { 0 }, n = 1;

	while (poll(fds, n, -1) >= 0) {
		if ((fds[0].revents & POLLIN) && n < ELEMENTS(fds)) {
			fds[n] = (struct pollfd){ accept(s, NULL, NULL), reads ? POLLIN : 0, 0 };
			sizes[n++] = 0;
		}
		for (size_t i = 1; i < n; i++) {
			char *nul;
			ssize_t got;

			if (!(fds[i].revents & POLLIN))
				continue;
			got = read(fds[i].fd, in[i] + sizes[i], sizeof(in[i]) - sizes[i]);
			if (got <= 0) {
				seen->ends++;
				close(fds[i].fd);
				fds[i].fd = -1;
				continue;
			}
			sizes[i] += (size_t)got;
			while ((nul = memchr(in[i], 0, sizes[i]))) {
				size_t size = (size_t)(nul - in[i]) + 1;

				snprintf(seen->last, sizeof(seen->last), "%s", in[i]);
				seen->n++;
				reply(fds[i].fd, in[i]);
				sizes[i] -= size;
				memmove(in[i], nul + 1, sizes[i]);
			}
		}
	}
	_exit(0);
}

static pid_t start_server(bool reads)
{
	int s = listen_at();
	pid_t pid;

	seen->n = seen->ends = 0;
	pid = fork();
	if (pid == 0)
		serve(s, reads);
	close(s);
	return pid;
}

static void end_server(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool server_has(unsigned n)
{
	for (int i = 0; i < 1000 && seen->n < n; i++)
		usleep(10000);
	return seen->n == n;
}

static bool server_has_ends(unsigned n)
{
	for (int i = 0; i < 1000 && seen->ends < n; i++)
		usleep(10000);
	return seen->ends == n;
}

/* The results of calls. */
struct results {
	int n, error, fd;
	unsigned progress;
	char id[16], message[256];
	struct csight *cancel; /* cancelled by the progress function: the handle of the call */
	struct csight_object *object;
};

static void on_done(void *userdata, const struct csight_result *r)
{
	struct results *all = userdata;

	all->n++;
	all->error = r->error;
	all->fd = r->fd;
	snprintf(all->id, sizeof(all->id), "%s", csight_text(r->object, "id") ? csight_text(r->object, "id") : "");
	snprintf(all->message, sizeof(all->message), "%s", r->message);
	csight_object_free(all->object);
	all->object = r->object ? csight_object_ref(r->object) : NULL;
}

static int on_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	struct results *all = userdata;

	all->progress += strcmp(phase, "decoding") == 0 && done == 1 && total == 3;
	return all->cancel != NULL;
}

/* Processes until n results are there, waiting for the descriptor alone. */
static bool process(struct csight *c, const struct results *all, int n)
{
	struct pollfd p = { csight_fd(c), (short)csight_events(c), 0 };

	while (all->n < n) {
		if (poll(&p, 1, 20000) != 1)
			return false;
		if (csight_process(c) < 0)
			return false;
	}
	return all->n == n;
}

static struct csight_counts counts_of(struct csight *c)
{
	struct csight_counts counts = { .size = sizeof(counts) };

	CHECK_EQ(csight_async_counts(c, &counts), 0);
	return counts;
}

static void test_no_daemon(void)
{
	struct results all = { 0 };
	struct csight_async_options o = { .size = sizeof(o), .done = on_done, .userdata = &all };
	struct csight *c = NULL;

	unlink(path);
	csight_open(path, &c);
	CHECK_EQ(csight_snapshot_async(c, 1, NULL, NULL), -ENOTCONN);
	CHECK_EQ(csight_snapshot_async(c, 1, NULL, NULL), -ENOTCONN);
	CHECK_EQ(counts_of(c).failed, 2);
	CHECK_EQ(csight_connect(c), -ENOTCONN);
	CHECK(strstr(csight_error(c), "no csightd answers"));
	csight_close(c);
	/* The first call with a result connects later. */
	csight_open(path, &c);
	CHECK_EQ(csight_snapshot_async(c, 1, &o, NULL), 0);
	CHECK(process(c, &all, 1));
	CHECK_EQ(all.error, -ENOTCONN);
	CHECK(strstr(all.message, "take a snapshot of process 1") && strstr(all.message, "no csightd answers"));
	CHECK_EQ(csight_snapshot_async(c, 1, &o, NULL), -ENOTCONN);
	csight_close(c);
}

static void test_post(void)
{
	struct csight_async_options o = { .size = sizeof(o), .flags = CSIGHT_NO_ARM, .every_ms = 60000 };
	pid_t server = start_server(true);
	struct csight *c = NULL;

	csight_open(path, &c);
	CHECK_EQ(csight_connect(c), 0);
	CHECK_EQ(csight_snapshot_async(c, 7, NULL, NULL), 0);
	CHECK(server_has(1));
	CHECK_STR(seen->last, "{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":7,\"noWait\":true},"
			      "\"oneway\":true}");
	CHECK_EQ(csight_snapshot_async(c, 8, &o, NULL), 0);
	CHECK_EQ(csight_snapshot_async(c, 8, &o, NULL), -EALREADY);
	CHECK(server_has(2));
	CHECK(strstr(seen->last, "\"noArm\":true"));
	CHECK_EQ(counts_of(c).limited, 1);
	/* The server ends and another one starts: the next call connects again. */
	end_server(server);
	server = start_server(true);
	CHECK_EQ(csight_snapshot_async(c, 9, NULL, NULL), 0);
	CHECK(server_has(1));
	o.size = 8;
	CHECK_EQ(csight_snapshot_async(c, 9, &o, NULL), 0);
	o.size = 0;
	CHECK_EQ(csight_snapshot_async(c, 9, &o, NULL), -EINVAL);
	CHECK_EQ(csight_wait_async(c, "x", NULL, NULL), -EINVAL);
	CHECK_EQ(counts_of(c).sent, 4);
	/* A connection whose server has ended is none. */
	end_server(server);
	unlink(path);
	CHECK_EQ(csight_connect(c), -ENOTCONN);
	CHECK_EQ(csight_snapshot_async(c, 9, NULL, NULL), -ENOTCONN);
	server = start_server(true);
	CHECK_EQ(csight_connect(c), 0);
	CHECK_EQ(csight_snapshot_async(c, 9, NULL, NULL), 0);
	CHECK(server_has(1));
	csight_close(c);
	end_server(server);
}

/* A daemon that does not read: a bounded number of requests, then a refusal at once. */
static void test_full(void)
{
	pid_t server = start_server(false);
	struct csight *c = NULL;
	int rc = 0, n = 0;

	csight_open(path, &c);
	while (n < 10000 && (rc = csight_snapshot_async(c, 7, NULL, NULL)) == 0)
		n++;
	CHECK_EQ(rc, -EAGAIN);
	CHECK(n > 0 && n < 1000);
	CHECK_EQ(counts_of(c).full, 1);
	CHECK_EQ(counts_of(c).sent, n);
	csight_close(c);
	end_server(server);
}

static void test_results(void)
{
	struct results all = { .fd = -1 };
	struct csight_async_options o = { .size = sizeof(o), .done = on_done, .userdata = &all }, slow = {
		.size = sizeof(o), .done = on_done, .progress = on_progress, .userdata = &all
	};
	pid_t server = start_server(true);
	struct csight *c = NULL;

	csight_open(path, &c);
	CHECK_EQ(csight_snapshot_async(c, 7, &o, NULL), 0);
	CHECK(process(c, &all, 1));
	CHECK(all.error == 0 && strcmp(all.id, "x") == 0 && !*all.message);
	CHECK_STR(csight_text(all.object, "id"), "x");
	CHECK_EQ(csight_wait_async(c, "bad", &o, NULL), 0);
	CHECK(process(c, &all, 2));
	CHECK_EQ(all.error, -ENOENT);
	CHECK_STR(all.message, "cannot wait for snapshot bad: there is no such snapshot");
	CHECK_EQ(csight_wait_async(c, "slow", &slow, NULL), 0);
	CHECK(process(c, &all, 3));
	CHECK(all.error == 0 && all.progress == 1);
	CHECK_EQ(csight_open_file_async(c, "x", "store", &o, NULL), 0);
	CHECK(process(c, &all, 4));
	CHECK(all.error == 0 && all.fd >= 0);
	close(all.fd);
	CHECK_EQ(csight_arm_async(c, 7, NULL, &o, NULL), 0);
	CHECK(process(c, &all, 5));
	CHECK_EQ(csight_number(all.object, "pid", -1), 7);
	CHECK_EQ(csight_call_async(c, "GetSnapshot", "{\"id\":\"x\"}", &o, NULL), 0);
	CHECK(process(c, &all, 6));
	CHECK(csight_field(all.object, "snapshot") != NULL);
	CHECK_STR(seen->last, "{\"method\":\"org.csight.GetSnapshot\",\"parameters\":{\"id\":\"x\"}}");
	CHECK_EQ(csight_call_async(c, "GetSnapshot", "{", &o, NULL), -EINVAL);
	/* Each event is a result; the last one is the error. */
	CHECK_EQ(csight_subscribe_async(c, &o, NULL), 0);
	CHECK(process(c, &all, 10));
	CHECK_EQ(all.error, -ENOBUFS);
	/* A long message, and one beyond the limit. */
	{
		_cleanup_free_ char *text = malloc(5001);

		memset(text, 'x', 5000);
		text[5000] = 0;
		CHECK_EQ(csight_wait_async(c, text, &o, NULL), -EMSGSIZE);
		text[2000] = 0;
		CHECK_EQ(csight_wait_async(c, text, &o, NULL), 0);
		CHECK(process(c, &all, 11));
	}
	csight_object_free(all.object);
	csight_close(c);
	end_server(server);
}

static void test_ends(void)
{
	struct results all = { .fd = -1 };
	struct csight_async_options o = { .size = sizeof(o), .done = on_done, .userdata = &all, .timeout_ms = 20 },
				    slow = { .size = sizeof(o),
					     .done = on_done,
					     .progress = on_progress,
					     .userdata = &all };
	pid_t server = start_server(true);
	struct csight *c = NULL;
	uint64_t call = 0;
	int rc = 0, n = 0;

	csight_open(path, &c);
	CHECK_EQ(csight_timeout(c), -1);
	CHECK_EQ(csight_wait_async(c, "wait", &o, NULL), 0);
	CHECK(process(c, &all, 1));
	CHECK_EQ(all.error, -ETIMEDOUT);
	o.timeout_ms = 0;
	CHECK_EQ(csight_wait_async(c, "wait", &o, &call), 0);
	CHECK_EQ(csight_process(c), 0);
	CHECK_EQ(csight_cancel(c, call), 0);
	CHECK(process(c, &all, 2));
	CHECK_EQ(all.error, -ECANCELED);
	CHECK_EQ(csight_cancel(c, call), -ENOENT);
	/* The progress function cancels. */
	all.cancel = c;
	CHECK_EQ(csight_call_async(c, "Wait", "{\"id\":\"slow\",\"then\":\"wait\"}", &slow, NULL), 0);
	CHECK(process(c, &all, 3));
	CHECK_EQ(all.error, -ECANCELED);
	/* All lanes are taken: others wait, in bounded number, and are sent when one is free. */
	while (n < 1000 && (rc = csight_wait_async(c, "wait", &o, &call)) == 0)
		n++;
	CHECK_EQ(rc, -EAGAIN);
	CHECK_EQ(n, 64);
	csight_process(c);
	CHECK_EQ(csight_cancel(c, call), 0);
	CHECK(process(c, &all, 4));
	/* The daemon leaves. */
	end_server(server);
	CHECK(process(c, &all, 4 + 63));
	CHECK_EQ(all.error, -ENOTCONN);
	csight_object_free(all.object);
	csight_close(c);
}

enum { THREADS = 4, CALLS = 20000 };

static void *call_often(void *data)
{
	size_t n = 0;

	for (int i = 0; i < CALLS; i++)
		n += csight_snapshot_async(data, 7, NULL, NULL) == 0;
	return (void *)n;
}

static void *call_with_results(void *data)
{
	struct results *all = data;
	struct csight_async_options o = { .size = sizeof(o), .done = on_done, .userdata = all };
	size_t n = 0;

	for (int i = 0; i < CALLS / 10; i++) {
		n += csight_wait_async(all->cancel, "x", &o, NULL) == 0;
		if (i % 100 == 0)
			usleep(1000);
	}
	return (void *)n;
}

/* Every call is sent or counted as lost, whichever thread made it. */
static void test_threads(void)
{
	pid_t server = start_server(true);
	pthread_t threads[THREADS], asks;
	struct results all = { 0 };
	struct csight_counts counts;
	struct csight *c = NULL;
	void *accepted = 0;
	size_t n = 0;

	csight_open(path, &c);
	all.cancel = c;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, call_often, c);
	pthread_create(&asks, NULL, call_with_results, &all);
	while (pthread_tryjoin_np(asks, &accepted) == EBUSY)
		csight_process(c);
	CHECK((size_t)accepted > 0);
	CHECK(process(c, &all, (int)(size_t)accepted));
	for (int i = 0; i < THREADS; i++) {
		void *got;

		pthread_join(threads[i], &got);
		n += (size_t)got;
	}
	csight_process(c);
	counts = counts_of(c);
	CHECK_EQ(counts.failed, 0);
	CHECK_EQ(counts.sent + counts.full, THREADS * CALLS + CALLS / 10);
	/* What was accepted and dropped later is counted, too. */
	CHECK(counts.sent <= n + (size_t)accepted);
	CHECK(server_has((unsigned)counts.sent));
	csight_object_free(all.object);
	csight_close(c);
	end_server(server);
}

static void test_fork(void)
{
	pid_t server = start_server(true), child;
	struct csight *c = NULL, *own = NULL;
	int status = -1;

	csight_open(path, &c);
	CHECK_EQ(csight_snapshot_async(c, 7, NULL, NULL), 0);
	CHECK(server_has(1));
	child = fork();
	if (child == 0) {
		bool ok = csight_snapshot_async(c, 7, NULL, NULL) == -ECHILD && csight_process(c) == -ECHILD &&
			  strstr(csight_error(c), "after fork()") && csight_fd(c) == -ECHILD &&
			  csight_cancel(c, 1) == -ECHILD && csight_disarm(c, 7) == -ECHILD;

		csight_close(c);
		csight_open(path, &own);
		ok = ok && csight_snapshot_async(own, 8, NULL, NULL) == 0;
		csight_close(own);
		_exit(ok ? 0 : 1);
	}
	waitpid(child, &status, 0);
	CHECK_EQ(status, 0);
	CHECK(server_has(2));
	CHECK_EQ(csight_snapshot_async(c, 7, NULL, NULL), 0);
	CHECK(server_has(3));
	csight_close(c);
	end_server(server);
}

/* csightd sees the end of calls though a child has their sockets; that the child closes them ends none. */
static void test_fork_keeps(void)
{
	struct results all = { .fd = -1 };
	struct csight_async_options o = { .size = sizeof(o), .done = on_done, .userdata = &all };
	pid_t server = start_server(true), child;
	struct csight_object *object = NULL;
	struct pollfd p = { .events = POLLIN };
	struct csight *c = NULL;
	uint64_t call = 0;

	csight_open(path, &c);
	p.fd = csight_fd(c);
	CHECK_EQ(csight_snapshot_async(c, 7, NULL, NULL), 0);
	CHECK_EQ(csight_wait_async(c, "wait", &o, &call), 0);
	CHECK_EQ(csight_process(c), 0);
	CHECK_EQ(csight_get(c, "x", &object), 0);
	csight_object_free(object);
	child = fork();
	if (child == 0) {
		csight_close(c);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	/* Before the second reply the server has read all ends that were there at the first one. */
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(csight_get(c, "x", &object), 0);
		csight_object_free(object);
	}
	CHECK_EQ(seen->ends, 0);
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	CHECK_EQ(csight_cancel(c, call), 0);
	CHECK(process(c, &all, 1));
	CHECK(server_has_ends(1));
	csight_process(c);
	CHECK_EQ(poll(&p, 1, 0), 0);
	all.cancel = c;
	CHECK_EQ(csight_wait(c, "slow", on_progress, &all, &object), -ECANCELED);
	CHECK(server_has_ends(2));
	csight_close(c);
	CHECK(server_has_ends(3));
	end_server(child);
	end_server(server);
}

int main(void)
{
	if (!mkdtemp(directory))
		return 99;
	snprintf(path, sizeof(path), "%s/s", directory);
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	test_no_daemon();
	test_post();
	test_full();
	test_results();
	test_ends();
	test_threads();
	test_fork();
	test_fork_keeps();
	unlink(path);
	rmdir(directory);
	return unit_end();
}
