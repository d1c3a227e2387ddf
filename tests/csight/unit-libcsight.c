/* SPDX-License-Identifier: MIT */
/* lib/csight: replies of all kinds, including malformed ones; access to objects. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/csight/csight.h"
#include "tests/unit.h"

static char directory[] = "/tmp/csight-unit-XXXXXX", path[64];

/*
 * Starts a process that accepts one connection, sends all replies after the first request, and closes it. fd is sent
 * with each reply unless it is -1.
 */
static pid_t start_server(const char *const *replies, int fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), client;
	char request[4096];
	pid_t pid;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	unlink(path);
	if (s < 0 || bind(s, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(s, 4) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		client = accept(s, NULL, NULL);
		if (read(client, request, sizeof(request)) > 0)
			for (size_t i = 0; replies[i]; i++)
				io_send_fds(client, replies[i], strlen(replies[i]) + 1, &fd, fd >= 0);
		_exit(0);
	}
	close(s);
	return pid;
}

/* A csightd that stands still: nothing accepts, and its queue is full. */
static void test_full_queue(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct csight_object *o = NULL;
	struct csight *c = NULL;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	unlink(path);
	CHECK(bind(s, (struct sockaddr *)&addr, sizeof(addr)) == 0 && listen(s, 0) == 0 &&
	      connect(one, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	csight_open(path, &c);
	csight_set_timeout(c, 20);
	/* Without the limit the call would last until this. */
	alarm(60);
	CHECK_EQ(csight_status(c, &o), -ETIMEDOUT);
	alarm(0);
	CHECK(strstr(csight_error(c), "has not accepted"));
	csight_close(c);
	close(one);
	close(s);
}

static int ask_status(const char *reply, char *ret_error, size_t size)
{
	const char *replies[] = { reply, NULL };
	struct csight_object *o = NULL;
	struct csight *c = NULL;
	pid_t pid = start_server(replies, -1);
	int rc;

	csight_open(path, &c);
	rc = csight_status(c, &o);
	snprintf(ret_error, size, "%s", csight_error(c));
	csight_object_free(o);
	csight_close(c);
	waitpid(pid, NULL, 0);
	return rc;
}

static void test_replies(void)
{
	static const struct {
		const char *reply;
		int rc;
		const char *says;
	} cases[] = {
		{ "{\"parameters\":{\"version\":\"1\"}}", 0, "" },
		{ "{}", 0, "" },
		{ "", -EPROTO, "not csightd's protocol" },
		{ "{\"parameters\":{}", -EPROTO, "not csightd's protocol" },
		{ "{\"parameters\":{},\"id\":1}", -EPROTO, "not csightd's protocol" },
		{ "{\"parameters\":{},\"continues\":true}", -EPROTO, "not csightd's protocol" },
		{ "{\"error\":\"org.varlink.service.PermissionDenied\"}", -EPERM, "another user" },
		{ "{\"error\":\"org.varlink.service.MethodNotFound\",\"parameters\":{\"method\":\"x\"}}", -ENOSYS,
		  "version" },
		{ "{\"error\":\"org.varlink.service.InvalidParameter\",\"parameters\":{\"parameter\":\"pid\"}}",
		  -EINVAL, "'pid'" },
		{ "{\"error\":\"org.varlink.service.InvalidParameter\",\"parameters\":{\"parameter\":\"why\"}}",
		  -EINVAL, "more than 256 bytes" },
		{ "{\"error\":\"org.varlink.service.InvalidParameter\",\"parameters\":{\"parameter\":\"labels\"}}",
		  -EINVAL, "NAME=VALUE" },
		{ "{\"error\":\"org.csight.NoSuchProcess\",\"parameters\":{\"pid\":1}}", -ESRCH, "no such process" },
		{ "{\"error\":\"org.csight.NoSuchSnapshot\"}", -ENOENT, "no such snapshot" },
		{ "{\"error\":\"org.csight.CannotTrace\",\"parameters\":{\"reason\":\"an\\u001b[31m x\"}}", -EOPNOTSUPP,
		  "an\\x1b[31m x" },
		{ "{\"error\":\"org.csight.NotArmed\"}", -ENODATA, "not armed" },
		{ "{\"error\":\"org.csight.NotReady\",\"parameters\":{\"state\":\"queued\"}}", -EBUSY, "queued" },
		{ "{\"error\":\"org.csight.SnapshotFailed\",\"parameters\":{\"reason\":\"disk full\"}}", -EIO,
		  "disk full" },
		{ "{\"error\":\"org.csight.LimitReached\",\"parameters\":{\"limit\":\"targets\"}}", -EDQUOT,
		  "targets" },
		{ "{\"error\":\"org.csight.OfTheFuture\"}", -EPROTO, "OfTheFuture" },
		{ NULL, -ENOTCONN, "closed the connection" },
	};

	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		char error[1024] = "";
		int rc = ask_status(cases[i].reply, error, sizeof(error));

		unit_check(rc == cases[i].rc && strstr(error, cases[i].says) && !*error == !rc, __FILE__, __LINE__,
			   "reply %zu: %d, %s", i, rc, error);
	}
}

static int stop_at_copying(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	char *seen = userdata;
	size_t n = strlen(seen);

	snprintf(seen + n, 64 - n, "%s %u/%u;", phase, (unsigned)done, (unsigned)total);
	return strcmp(phase, "copying") == 0;
}

static void test_progress(void)
{
	static const char *const replies[] = { "{\"parameters\":{\"phase\":\"copying\"},\"continues\":true}",
					       "{\"parameters\":{\"phase\":\"arming\"},\"continues\":true}",
					       "{\"parameters\":{\"phase\":\"decoding\",\"done\":1,\"total\":3},"
					       "\"continues\":true}",
					       "{\"parameters\":{\"snapshot\":{\"id\":\"x\"}}}", NULL };
	struct csight_object *o = NULL;
	struct csight *c = NULL;
	char seen[64] = "";
	pid_t pid;

	csight_open(path, &c);
	pid = start_server(replies + 1, -1);
	CHECK_EQ(csight_snapshot(c, 1, 0, stop_at_copying, seen, &o), 0);
	CHECK_STR(seen, "arming 0/0;decoding 1/3;");
	CHECK_STR(csight_text(o, "id"), "x");
	o = csight_object_free(o);
	waitpid(pid, NULL, 0);
	/* The server has closed the connection; the handle connects again. */
	seen[0] = 0;
	pid = start_server(replies, -1);
	CHECK_EQ(csight_wait(c, "x", stop_at_copying, seen, &o), -ECANCELED);
	CHECK_STR(seen, "copying 0/0;");
	CHECK(o == NULL);
	waitpid(pid, NULL, 0);
	unlink(path);
	CHECK_EQ(csight_snapshot(c, 1, 0, NULL, NULL, &o), -ENOTCONN);
	CHECK(strstr(csight_error(c), path) && strstr(csight_error(c), "process 1"));
	csight_close(c);
}

static int on_watching(void *userdata, const struct csight_object *trigger)
{
	*(int64_t *)userdata = csight_number(trigger, "id", -1);
	return 0;
}

static void test_watch_wait(void)
{
	static const char *const hit[] = { "{\"parameters\":{\"trigger\":{\"id\":3}},\"continues\":true}",
					   "{\"parameters\":{\"snapshot\":{\"id\":\"x\"}},\"continues\":true}", NULL },
				 *const ended[] = { "{\"parameters\":{\"trigger\":{\"id\":3}},\"continues\":true}",
						    "{\"parameters\":{}}", NULL };
	int64_t id = 0;
	const struct csight_watch_options options = { .size = sizeof(options),
						      .watching = on_watching,
						      .userdata = &id };
	struct csight_object *o = NULL;
	struct csight *c = NULL;
	pid_t pid = start_server(hit, -1);

	csight_open(path, &c);
	CHECK_EQ(csight_watch_wait(c, 1, "entry", &options, &o), 0);
	CHECK_STR(csight_text(o, "id"), "x");
	CHECK_STR(csight_error(c), "");
	CHECK_EQ(id, 3);
	o = csight_object_free(o);
	waitpid(pid, NULL, 0);
	pid = start_server(ended, -1);
	CHECK_EQ(csight_watch_wait(c, 1, "entry", &options, &o), -ESRCH);
	CHECK(o == NULL && strstr(csight_error(c), "ended before a hit"));
	waitpid(pid, NULL, 0);
	csight_close(c);
}

/* A request that csightd would refuse for its size is the caller's error. */
static void test_long_arguments(void)
{
	static const char *const replies[] = { "{}", NULL };
	struct csight_object *o = NULL;
	struct csight *c = NULL;
	char text[100000];
	pid_t pid = start_server(replies, -1);

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	csight_open(path, &c);
	CHECK_EQ(csight_watch_wait(c, 1, text, NULL, &o), -EINVAL);
	CHECK(strstr(csight_error(c), "too long"));
	csight_close(c);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_no_store(void)
{
	struct csight_store *s = NULL;

	CHECK_EQ(csight_store_open_path("/dev/null", 0, &s), -EBADMSG);
	CHECK_EQ(csight_store_open_path("/dev/null", ~0u, &s), -EINVAL);
}

/* A scope may end between a call and the use of its errno. */
static void test_region_errno(void)
{
	struct csight_region region;
	struct csight *c = NULL;

	unlink(path);
	csight_open(path, &c);
	csight_region_begin(&region, "r", 1);
	usleep(10);
	errno = ELOOP;
	CHECK_EQ(csight_region_end(&region, c), -ENOTCONN);
	CHECK_EQ(errno, ELOOP);
	csight_close(c);
}

static void test_open_file(void)
{
	static const char *const replies[] = { "{\"parameters\":{\"size\":1}}", NULL };
	int file = memfd_create("test", MFD_CLOEXEC), got = -1;
	struct csight *c = NULL;
	char text = 0;
	pid_t pid;

	CHECK(write(file, "S", 1) == 1);
	pid = start_server(replies, file);
	csight_open(path, &c);
	CHECK_EQ(csight_open_file(c, "x", "store", &got), 0);
	CHECK(pread(got, &text, 1, 0) == 1 && text == 'S');
	CHECK(fcntl(got, F_GETFD) == FD_CLOEXEC);
	close(got);
	waitpid(pid, NULL, 0);
	/* A reply without the descriptor is an error; the handle connects again. */
	pid = start_server(replies, -1);
	got = -7;
	CHECK_EQ(csight_open_file(c, "x", "store", &got), -EPROTO);
	CHECK_EQ(got, -7);
	waitpid(pid, NULL, 0);
	csight_close(c);
	close(file);
}

static void test_objects(void)
{
	static const char *const replies[] = { "{\"parameters\":{\"snapshots\":[{\"id\":\"a\",\"pid\":7,\"time\":"
					       "1790000000000000000,\"missing\":[\"m\",\"n\"],"
					       "\"reason\":null},{\"id\":5,\"ok\":true}]}}",
					       NULL };
	struct csight_object *list = NULL;
	const struct csight_object *a, *b;
	struct csight *c = NULL;
	pid_t pid = start_server(replies, -1);

	csight_open(path, &c);
	CHECK_EQ(csight_list(c, &list), 0);
	csight_close(c);
	waitpid(pid, NULL, 0);
	CHECK_EQ(csight_count(list, "snapshots"), 2);
	CHECK_EQ(csight_count(list, "nothing"), 0);
	a = csight_item(list, "snapshots", 0);
	b = csight_item(list, "snapshots", 1);
	CHECK_STR(csight_text(a, "id"), "a");
	CHECK_EQ(csight_number(a, "pid", -1), 7);
	CHECK_EQ(csight_number(a, "time", -1), 1790000000000000000);
	CHECK(!csight_text(a, "reason") && !csight_field(a, "reason") && !csight_text(a, "pid"));
	CHECK_STR(csight_text(csight_item(a, "missing", 1), NULL), "n");
	CHECK(!csight_item(a, "missing", 2) && !csight_item(list, "snapshots", 2));
	CHECK(!csight_text(b, "id") && csight_flag(b, "ok") && !csight_flag(b, "id"));
	CHECK_EQ(csight_number(b, "id", -1), 5);
	CHECK_STR(csight_json(b), "{\"id\":5,\"ok\":true}");
	CHECK(csight_field(b, NULL) == b);
	CHECK(!csight_text(NULL, "id") && csight_number(NULL, "id", 3) == 3 && csight_count(NULL, "x") == 0);
	CHECK(csight_object_free(list) == NULL && csight_object_free(NULL) == NULL);
}

/* Options of callers that were built with another header. */
static void test_options(void)
{
	static const char *const replies[] = { "{\"parameters\":{\"target\":{\"pid\":1}}}", NULL };
	struct {
		struct csight_arm_options known;
		uint64_t later;
	} o = { .known = { .size = sizeof(o), .cycles = true } };
	struct csight *c = NULL;
	pid_t pid;

	CHECK_EQ(csight_version(), CSIGHT_VERSION);
	csight_open(path, &c);
	/* A newer caller's fields may be zero. */
	pid = start_server(replies, -1);
	CHECK_EQ(csight_arm(c, 1, &o.known, NULL), 0);
	waitpid(pid, NULL, 0);
	o.later = 1;
	CHECK_EQ(csight_arm(c, 1, &o.known, NULL), -E2BIG);
	CHECK(strstr(csight_error(c), CSIGHT_VERSION_TEXT));
	/* An older caller's struct ends earlier: what is behind it is not read. */
	o.known.size = offsetof(struct csight_arm_options, filter);
	o.known.filter = (const char *)1;
	pid = start_server(replies, -1);
	CHECK_EQ(csight_arm(c, 1, &o.known, NULL), 0);
	waitpid(pid, NULL, 0);
	o.known.size = 0;
	CHECK_EQ(csight_arm(c, 1, &o.known, NULL), -EINVAL);
	o.known.size = SIZE_MAX;
	CHECK_EQ(csight_arm(c, 1, &o.known, NULL), -EINVAL);
	csight_close(c);
}

static void test_socket(void)
{
	struct csight *c = NULL;

	setenv("CSIGHT_SOCKET", "/nonexistent/a", 1);
	CHECK_EQ(csight_open(NULL, &c), 0);
	CHECK_STR(csight_socket(c), "/nonexistent/a");
	csight_close(c);
	/* An empty one counts as none. */
	setenv("CSIGHT_SOCKET", "", 1);
	setenv("XDG_RUNTIME_DIR", directory, 1);
	CHECK_EQ(csight_open(NULL, &c), 0);
	CHECK_STR(csight_socket(c), "/run/csight/csight.sock");
	csight_close(c);
	CHECK(csight_close(NULL) == NULL);
}

int main(void)
{
	if (!mkdtemp(directory))
		return 99;
	snprintf(path, sizeof(path), "%s/s", directory);
	test_full_queue();
	test_replies();
	test_progress();
	test_watch_wait();
	test_long_arguments();
	test_no_store();
	test_region_errno();
	test_open_file();
	test_objects();
	test_options();
	test_socket();
	unlink(path);
	rmdir(directory);
	return unit_end();
}
