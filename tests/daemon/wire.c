/* SPDX-License-Identifier: MIT */
/* daemon: the control socket with invalid, slow, many and hostile clients. */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "tests/daemon/help.h"
#include "tests/unit.h"

static struct tested tested;

/* Sends bytes and shuts down the sending direction. Returns the whole answer, with newlines in place of NULs. */
static char *exchange(const void *data, size_t size)
{
	static char answer[1 << 20];
	int fd = tested_connect(tested.socket, SOCK_STREAM);
	size_t have = 0;
	ssize_t n;

	send(fd, data, size, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	while ((n = recv(fd, answer + have, sizeof(answer) - 1 - have, 0)) > 0)
		have += (size_t)n;
	close(fd);
	answer[have] = 0;
	for (size_t i = 0; i < have; i++)
		if (answer[i] == 0)
			answer[i] = '\n';
	return answer;
}

static bool alive(void)
{
	return tested_error(&tested, "Status", NULL)[0] == 0;
}

static unsigned lines(const char *text)
{
	unsigned n = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		n++;
	}
	return n;
}

static void test_invalid_messages(void)
{
	static const char *const wrong[] = {
		"{",
		"}",
		"null",
		"[]",
		"\"x\"",
		"{}",
		"{\"method\":1}",
		"{\"method\":\"\"}",
		"{\"method\":\"x\"}",
		"{\"method\":\"org.csight.\"}",
		"{\"method\":\"org.csight.status\"}",
		"{\"method\":\"org.csight.Status\",\"id\":1}",
		"{\"method\":\"org.csight.Status\",\"method\":\"org.csight.Status\"}",
		"{\"method\":\"org.csight.Status\",\"parameters\":[]}",
		"{\"method\":\"org.csight.Status\",\"parameters\":1}",
		"{\"method\":\"org.csight.Status\",\"more\":1}",
		"{\"method\":\"org.csight.Status\",\"more\":true,\"oneway\":true}",
		"{\"method\":\"org.csight.Status\",\"parameters\":{\"a\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}}",
		"{\"method\":\"org.csight.Status\",\"parameters\":{\"a\":\"\xff\"}}",
		"{'method':'org.csight.Status'}",
		"{\"method\":\"org.csight.Status\"} x",
		"\x01\x02\x03",
		"GET / HTTP/1.0\r\n\r\n",
	};

	for (size_t n = 0; n < ELEMENTS(wrong); n++) {
		const char *answer = exchange(wrong[n], strlen(wrong[n]) + 1);

		unit_check(strstr(answer, "InvalidParameter") && strstr(answer, "\"message\"") && lines(answer) == 1,
			   __FILE__, __LINE__, "invalid message %zu is refused", n);
	}
	/* An incomplete message. */
	CHECK(strstr(exchange("{\"method\":\"org.csi", 18), "InvalidParameter") != NULL);
	CHECK(exchange("", 0)[0] == 0);
	CHECK(lines(exchange("\0\0\0\0", 4)) == 1);
	CHECK(alive());
}

static void test_large(void)
{
	static char large[VARLINK_REQUEST_MAX * 4];

	memset(large, ' ', sizeof(large));
	CHECK(strstr(exchange(large, sizeof(large)), "InvalidParameter") != NULL);
	memcpy(large, "{\"method\":\"org.csight.Status\"", 29);
	/* The largest message, and one that is a byte larger. */
	large[VARLINK_REQUEST_MAX - 1] = '}';
	large[VARLINK_REQUEST_MAX] = 0;
	CHECK(strstr(exchange(large, VARLINK_REQUEST_MAX + 1), "version") != NULL);
	large[VARLINK_REQUEST_MAX - 1] = ' ';
	large[VARLINK_REQUEST_MAX] = '}';
	large[VARLINK_REQUEST_MAX + 1] = 0;
	CHECK(strstr(exchange(large, VARLINK_REQUEST_MAX + 2), "InvalidParameter") != NULL);
	CHECK(alive());
}

/* Each method with absent, null, empty and mistyped parameters, with more, with oneway and without either. */
static void test_parameters(void)
{
	static const char *const methods[] = {
		"org.csight.Status",
		"org.csight.ListTargets",
		"org.csight.Arm",
		"org.csight.Disarm",
		"org.csight.ArmStanding",
		"org.csight.DisarmStanding",
		"org.csight.ListStanding",
		"org.csight.Snapshot",
		"org.csight.Tail",
		"org.csight.EndRecording",
		"org.csight.Wait",
		"org.csight.ListSnapshots",
		"org.csight.GetSnapshot",
		"org.csight.Open",
		"org.csight.Remove",
		"org.csight.Keep",
		"org.csight.Watch",
		"org.csight.ListTriggers",
		"org.csight.SetTrigger",
		"org.csight.RemoveTrigger",
		"org.csight.Pause",
		"org.csight.Reload",
		"org.varlink.service.GetInfo",
		"org.varlink.service.GetInterfaceDescription",
		"org.csight.Nothing",
		"org.varlink.service.Nothing",
		"org.nothing.Nothing",
	};
	static const char *const parameters[] = {
		"",
		",\"parameters\":null",
		",\"parameters\":{}",
		",\"parameters\":{\"pid\":null,\"id\":null,\"file\":null,\"interface\":null}",
		",\"parameters\":{\"pid\":\"1\",\"id\":1,\"file\":1,\"interface\":1}",
		",\"parameters\":{\"pid\":1.5,\"id\":[],\"file\":{},\"interface\":true}",
		",\"parameters\":{\"pid\":-1,\"id\":\"\",\"file\":\"\",\"interface\":\"\"}",
		",\"parameters\":{\"pid\":0,\"id\":\"..\",\"file\":\"../state.json\",\"interface\":\"x\"}",
		",\"parameters\":{\"pid\":999999999999,\"id\":\"/\",\"file\":\"a\\u0000\",\"interface\":\"\\u0000\"}",
		",\"parameters\":{\"pid\":2147483647,\"id\":\"a\\u0000b\",\"noArm\":1,\"noWait\":\"yes\"}",
		",\"parameters\":{\"pid\":{},\"id\":false}",
		",\"parameters\":{\"rule\":{\"name\":\"\",\"tree\":-1,\"user\":\"x\"},\"first\":-1}",
		",\"parameters\":{\"rule\":{\"user\":99999999999},\"options\":1}",
		",\"parameters\":{\"pid\":1,\"with\":[\"1\"]}",
		",\"parameters\":{\"pid\":1,\"with\":{\"1\":1},\"trigger\":\"\"}",
		",\"parameters\":{\"pid\":1,\"record\":1}",
		",\"parameters\":{\"pid\":1,\"record\":{\"maxTime\":0}}",
		",\"parameters\":{\"pid\":1,\"record\":{\"maxBytes\":\"1\",\"maxRate\":-1}}",
		",\"parameters\":{\"pid\":1,\"record\":{},\"last\":5}",
	};
	static const char *const flags[] = { "", ",\"more\":true", ",\"oneway\":true",
					     ",\"more\":false,\"upgrade\":false", ",\"upgrade\":true" };
	unsigned wrong = 0, oneway = 0;

	for (size_t m = 0; m < ELEMENTS(methods); m++)
		for (size_t p = 0; p < ELEMENTS(parameters); p++)
			for (size_t f = 0; f < ELEMENTS(flags); f++) {
				char text[512], *answer;
				int size = snprintf(text, sizeof(text), "{\"method\":\"%s\"%s%s}", methods[m],
						    parameters[p], flags[f]);

				answer = exchange(text, (size_t)size + 1);
				if (f == 2)
					oneway += answer[0] != 0;
				else if (lines(answer) != 1) {
					printf("# %s\n# %s\n", text, answer);
					wrong++;
				}
			}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(oneway, 0);
	CHECK_STR(tested_error(&tested, "Snapshot", "{\"pid\": 2147483647}"), "org.csight.NoSuchProcess");
	CHECK_STR(tested_error(&tested, "Arm", "{\"pid\": 1}"),
		  getuid() == 0 ? "org.csight.CannotTrace" : "org.varlink.service.PermissionDenied");
	CHECK_STR(tested_error(&tested, "Wait", "{\"id\": \"20200101T000000-000000\"}"), "org.csight.NoSuchSnapshot");
	CHECK(alive());
}

static void test_pipelining(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	const char *answer;

	/* Calls in one piece get their answers in order. */
	for (int n = 0; n < 300; n++) {
		buf_printf(&b, "{\"method\":\"org.csight.Wait\",\"parameters\":{\"id\":\"%d\"}}", n);
		buf_u8(&b, 0);
	}
	answer = exchange(b.data, b.size);
	CHECK_EQ(lines(answer), 300);
	for (int n = 0; n < 300; n++) {
		char id[32];

		snprintf(id, sizeof(id), "\"%d\"", n);
		answer = answer ? strstr(answer, id) : NULL;
	}
	CHECK(answer != NULL);
}

/* A message that arrives byte by byte. */
static void test_slow(void)
{
	static const char text[] = "{\"method\":\"org.csight.Status\"}";
	int fd = tested_connect(tested.socket, SOCK_STREAM);
	char answer[4096];

	for (size_t n = 0; n < sizeof(text); n++) {
		CHECK(n % 8 || alive());
		send(fd, text + n, 1, MSG_NOSIGNAL);
	}
	CHECK(recv(fd, answer, sizeof(answer), 0) > 0);
	close(fd);
}

/* Clients that leave before the answer, do not read, or stay idle. */
static void test_rude(void)
{
	static const char status[] = "{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":"
				     "{\"interface\":\"org.csight\"}}";
	int fds[600], accepted = 0, fd, n;
	char byte;

	for (n = 0; n < 500; n++) {
		fd = tested_connect(tested.socket, SOCK_STREAM);
		send(fd, status, n % 2 ? sizeof(status) : 10, MSG_NOSIGNAL);
		close(fd);
	}
	CHECK(alive());
	/* A client that requests more than its socket holds, and never reads. */
	fd = tested_connect(tested.socket, SOCK_STREAM);
	for (n = 0; n < 20000 && send(fd, status, sizeof(status), MSG_NOSIGNAL | MSG_DONTWAIT) > 0; n++)
		;
	CHECK(alive());
	CHECK(tested_memory(&tested) < 100 << 10);
	close(fd);
	for (n = 0; n < (int)ELEMENTS(fds); n++)
		fds[n] = tested_connect(tested.socket, SOCK_STREAM);
	usleep(100000);
	/* The daemon closes connections beyond the limit. */
	for (n = 0; n < (int)ELEMENTS(fds); n++)
		accepted += fds[n] >= 0 && recv(fds[n], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
	printf("# %d connections at a time\n", accepted);
	CHECK_EQ(accepted, getuid() == 0 ? 128 : 16);
	for (n = 0; n < (int)ELEMENTS(fds); n++)
		closep(&fds[n]);
	for (n = 0; n < 100 && !alive(); n++)
		usleep(20000);
	CHECK(alive());
}

/* GetInterfaceDescription returns the text of the interface file. */
static void test_description(void)
{
	_cleanup_free_ char *text = NULL;
	struct varlink_reply reply = { 0 };
	struct varlink_stream *s;
	const char *got = NULL, *top = getenv("top_srcdir");
	json_object *o = json_object_new_object();
	char path[4096];

	json_add_str(o, "interface", "org.csight");
	CHECK(varlink_connect(tested.socket, -1, &s) == 0);
	CHECK(varlink_send_call(s, "org.varlink.service.GetInterfaceDescription", o, false) == 0 &&
	      varlink_receive(s, 10000, &reply, NULL) == 0 && json_get_str(reply.parameters, "description", &got) == 0);
	snprintf(path, sizeof(path), "%s/lib/csight/org.csight.varlink", top ? top : "..");
	CHECK(io_read_file(AT_FDCWD, path, 1 << 20, &text, NULL) == 0);
	CHECK(got && text && strcmp(got, text) == 0);
	varlink_reply_done(&reply);
	varlink_stream_free(s);
	json_object_put(o);
}

int main(void)
{
	int before, after = 0;
	long memory;

	tested_start(&tested, NULL);
	test_invalid_messages();
	test_large();
	/* The first events open the journal, where there is one. */
	test_parameters();
	before = tested_descriptors(&tested);
	memory = tested_memory(&tested);
	test_parameters();
	test_pipelining();
	test_slow();
	test_rude();
	test_description();
	for (int n = 0; n < 100 && (after = tested_descriptors(&tested)) > before; n++)
		usleep(20000);
	CHECK(after <= before);
	printf("# resident before %ld KiB, after %ld KiB\n", memory, tested_memory(&tested));
	if (TESTED_SANITIZED)
		unit_skip("memory has not grown", "a sanitizer keeps freed memory");
	else
		CHECK(tested_memory(&tested) < memory + 4096);
	CHECK_EQ(tested_end(&tested), 0);
	tested_clean(&tested);
	return unit_end();
}
