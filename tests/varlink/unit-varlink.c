/* SPDX-License-Identifier: MIT */
/* lib/varlink: messages and the blocking stream. */
#include "config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "lib/base/io.h"
#include "lib/varlink/varlink.h"
#include "tests/unit.h"

static int parse_call(const char *text)
{
	struct varlink_call call = { 0 };
	int rc = varlink_call_parse(text, strlen(text), &call);

	varlink_call_done(&call);
	return rc;
}

static int parse_reply(const char *text)
{
	struct varlink_reply reply = { 0 };
	int rc = varlink_reply_parse(text, strlen(text), &reply);

	varlink_reply_done(&reply);
	return rc;
}

static void test_calls(void)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"\"a.b.C\"",
		"{\"method\":\"a.b.C\"",
		"{\"method\":1}",
		"{\"method\":null}",
		"{\"method\":\"\"}",
		"{\"method\":\"C\"}",
		"{\"method\":\"b.C\"}",
		"{\"method\":\"a.b.c\"}",
		"{\"method\":\"a..b.C\"}",
		"{\"method\":\".a.b.C\"}",
		"{\"method\":\"a.b.\"}",
		"{\"method\":\"a.-b.C\"}",
		"{\"method\":\"a.b-.C\"}",
		"{\"method\":\"1a.b.C\"}",
		"{\"method\":\"a.b.C/\"}",
		"{\"method\":\"a.b.C\\u0000\"}",
		"{\"method\":\"a.b.C_d\"}",
		"{\"method\":\"a.b\xc3\xa9.C\"}",
		"{\"method\":\"a.b.C\",\"id\":1}",
		"{\"method\":\"a.b.C\",\"method\":\"a.b.C\"}",
		"{\"method\":\"a.b.C\",\"parameters\":[]}",
		"{\"method\":\"a.b.C\",\"parameters\":\"x\"}",
		"{\"method\":\"a.b.C\",\"parameters\":{\"a\":1,\"a\":2}}",
		"{\"method\":\"a.b.C\",\"more\":1}",
		"{\"method\":\"a.b.C\",\"more\":\"true\"}",
		"{\"method\":\"a.b.C\",\"more\":true,\"oneway\":true}",
		"{\"method\":\"a.b.C\",\"upgrade\":true,\"oneway\":true}",
		"{\"method\":\"a.b.C\"}{\"method\":\"a.b.C\"}",
	};
	static const char good[] = "{\"method\":\"org.varlink-x.s3rvice.GetInfo\",\"parameters\":null,\"more\":true,"
				   "\"oneway\":false}";
	struct varlink_call call = { 0 };
	int64_t pid = 0;

	for (size_t i = 0; i < ELEMENTS(bad); i++)
		unit_check(parse_call(bad[i]) == -EBADMSG, __FILE__, __LINE__, "refused: call %zu %s", i, bad[i]);
	CHECK_EQ(varlink_call_parse(good, strlen(good), &call), 0);
	CHECK(call.more && !call.oneway && !call.upgrade);
	CHECK_STR(call.method, "org.varlink-x.s3rvice.GetInfo");
	CHECK(json_object_is_type(call.parameters, json_type_object));
	varlink_call_done(&call);
	CHECK_EQ(varlink_call_parse("{\"method\":\"a.b.C\",\"parameters\":{\"pid\":7}}garbage", 41, &call), 0);
	CHECK(json_get_i64(call.parameters, "pid", &pid) == 0 && pid == 7);
	varlink_call_done(&call);
}

static void test_replies(void)
{
	static const char *const bad[] = {
		"null",
		"[]",
		"{\"id\":1}",
		"{\"error\":\"x\"}",
		"{\"error\":1}",
		"{\"parameters\":1}",
		"{\"continues\":0}",
		"{\"error\":\"a.b.C\",\"continues\":true}",
		"{\"continues\":true,\"continues\":true}",
	};

	for (size_t i = 0; i < ELEMENTS(bad); i++)
		unit_check(parse_reply(bad[i]) == -EBADMSG, __FILE__, __LINE__, "refused: reply %zu %s", i, bad[i]);
	CHECK_EQ(parse_reply("{}"), 0);
	CHECK_EQ(parse_reply("{\"parameters\":{},\"continues\":true}"), 0);
	CHECK_EQ(parse_reply("{\"error\":\"org.csight.NoSuchProcess\",\"parameters\":{\"pid\":1}}"), 0);
}

/* Formatted messages are parsed to the same values. */
static void test_put(void)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	_cleanup_buf_ struct buf b = { 0 }, small = { .limit = 20 };
	struct varlink_reply reply = { 0 };
	struct varlink_call call = { 0 };
	const char *text = NULL;

	json_add_str(o, "s", "a/\"b\"\n");
	varlink_put_call(&b, "a.b.C", o, true);
	CHECK_STR((const char *)b.data,
		  "{\"method\":\"a.b.C\",\"parameters\":{\"s\":\"a/\\\"b\\\"\\n\"},\"more\":true}");
	CHECK_EQ(varlink_call_parse((const char *)b.data, b.size - 1, &call), 0);
	CHECK(json_get_str(call.parameters, "s", &text) == 0);
	CHECK_STR(text, "a/\"b\"\n");
	varlink_call_done(&call);
	buf_clear(&b);
	varlink_put_reply(&b, NULL, false);
	CHECK_STR((const char *)b.data, "{}");
	CHECK_EQ(b.size, 3);
	buf_clear(&b);
	varlink_put_error(&b, "a.b.No", o);
	CHECK_EQ(varlink_reply_parse((const char *)b.data, b.size - 1, &reply), 0);
	CHECK_STR(reply.error, "a.b.No");
	varlink_reply_done(&reply);
	varlink_put_call(&small, "a.b.C", o, false);
	CHECK_EQ(buf_error(&small), -EFBIG);
}

static struct varlink_stream *stream_pair(int *ret_peer)
{
	struct varlink_stream *s = NULL;
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(varlink_stream_wrap(pair[0], &s) == 0);
	*ret_peer = pair[1];
	return s;
}

static void send_text(int peer, const char *text, int fd)
{
	CHECK(io_send_fds(peer, text, strlen(text) + 1, &fd, fd >= 0) == 0);
}

/* Returns the number in the next reply, and its descriptor; or a negative errno. */
static int64_t receive_number(struct varlink_stream *s, int *ret_fd)
{
	struct varlink_reply reply = { 0 };
	int rc = varlink_receive(s, 2000, &reply, ret_fd);
	int64_t n = -1;

	if (rc < 0)
		return rc;
	json_get_i64(reply.parameters, "n", &n);
	varlink_reply_done(&reply);
	return n;
}

static char content(int fd)
{
	char c = 0;

	return fd >= 0 && pread(fd, &c, 1, 0) == 1 ? c : '-';
}

static void test_pipeline(void)
{
	static const char three[] = "{\"parameters\":{\"n\":1}}\0{\"parameters\":{\"n\":2}}\0{\"par";
	struct varlink_stream *s;
	char request[64];
	int peer, fd;

	s = stream_pair(&peer);
	CHECK_EQ(varlink_send_call(s, "a.b.C", NULL, false), 0);
	CHECK_EQ(recv(peer, request, sizeof(request), 0), 19);
	CHECK_STR(request, "{\"method\":\"a.b.C\"}");
	io_send_fds(peer, three, sizeof(three) - 1, NULL, 0);
	CHECK_EQ(receive_number(s, &fd), 1);
	CHECK_EQ(receive_number(s, NULL), 2);
	/* A timeout in the middle of a reply loses nothing. */
	CHECK_EQ(varlink_receive(s, 1, &(struct varlink_reply){ 0 }, NULL), -ETIMEDOUT);
	send_text(peer, "ameters\":{\"n\":3}}", -1);
	CHECK_EQ(receive_number(s, &fd), 3);
	CHECK_EQ(fd, -1);
	send_text(peer, "{\"parameters\":{\"n\":4}}", -1);
	io_send_fds(peer, "{\"cut", 5, NULL, 0);
	close(peer);
	CHECK_EQ(receive_number(s, NULL), 4);
	CHECK_EQ(receive_number(s, NULL), -EPIPE);
	CHECK_EQ(varlink_send_call(s, "a.b.C", NULL, false), -EPIPE);
	varlink_stream_free(s);
}

/* Descriptors belong to their messages, wherever reads split the bytes. */
static void test_descriptors(void)
{
	int files[3], peer, fd, least = dup(0);
	struct varlink_stream *s;

	close(least);
	for (int i = 0; i < 3; i++) {
		files[i] = memfd_create("test", MFD_CLOEXEC);
		CHECK(write(files[i], &"abc"[i], 1) == 1);
	}
	s = stream_pair(&peer);
	send_text(peer, "{\"parameters\":{\"n\":1}}", -1);
	send_text(peer, "{\"parameters\":{\"n\":2}}", files[0]);
	send_text(peer, "{\"parameters\":{\"n\":3}}", -1);
	io_send_fds(peer, "{\"parameters\"", 13, &files[1], 1);
	CHECK(receive_number(s, &fd) == 1 && fd == -1);
	CHECK(receive_number(s, &fd) == 2 && content(fd) == 'a');
	close(fd);
	CHECK(receive_number(s, &fd) == 3 && fd == -1);
	CHECK_EQ(varlink_receive(s, 0, &(struct varlink_reply){ 0 }, &fd), -ETIMEDOUT);
	io_send_fds(peer, ":{\"n\":4}}", 10, NULL, 0);
	send_text(peer, "{\"parameters\":{\"n\":5}}", files[2]);
	CHECK(receive_number(s, &fd) == 4 && content(fd) == 'b');
	close(fd);
	CHECK(receive_number(s, &fd) == 5 && content(fd) == 'c' && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	close(fd);
	/* The first of these descriptors is not requested, the last reply is never received: both descriptors are
	 * closed. */
	send_text(peer, "{\"parameters\":{\"n\":6}}", files[0]);
	CHECK_EQ(receive_number(s, NULL), 6);
	send_text(peer, "{\"parameters\":{\"n\":7}}", -1);
	send_text(peer, "{\"parameters\":{\"n\":8}}", files[0]);
	CHECK_EQ(receive_number(s, NULL), 7);
	varlink_stream_free(s);
	close(peer);
	/* A descriptor in the middle of a message is an error. */
	s = stream_pair(&peer);
	io_send_fds(peer, "{\"para", 6, NULL, 0);
	CHECK_EQ(varlink_receive(s, 0, &(struct varlink_reply){ 0 }, NULL), -ETIMEDOUT);
	send_text(peer, "meters\":{}}", files[0]);
	CHECK_EQ(receive_number(s, &fd), -EBADMSG);
	varlink_stream_free(s);
	close(peer);
	s = stream_pair(&peer);
	io_send_fds(peer, "{}", 3, files, 2);
	CHECK_EQ(receive_number(s, &fd), -EBADMSG);
	varlink_stream_free(s);
	close(peer);
	for (int i = 0; i < 3; i++)
		close(files[i]);
	fd = dup(0);
	CHECK_EQ(fd, least);
	close(fd);
}

static void test_limits(void)
{
	static char piece[64 << 10];
	_cleanup_json_ json_object *big = json_object_new_object();
	struct varlink_stream *s;
	int peer, rc = -ETIMEDOUT;

	memset(piece, 'x', sizeof(piece) - 1);
	json_add_str(big, "x", piece);
	s = stream_pair(&peer);
	CHECK_EQ(varlink_send_call(s, "a.b.C", big, false), -EMSGSIZE);
	for (size_t sent = 0; sent <= VARLINK_REPLY_MAX && rc == -ETIMEDOUT; sent += sizeof(piece) - 1) {
		if (io_send_fds(peer, piece, sizeof(piece) - 1, NULL, 0) < 0)
			break;
		rc = varlink_receive(s, 0, &(struct varlink_reply){ 0 }, NULL);
	}
	CHECK_EQ(rc, -EMSGSIZE);
	CHECK_EQ(varlink_receive(s, 0, &(struct varlink_reply){ 0 }, NULL), -EMSGSIZE);
	varlink_stream_free(s);
	close(peer);
	s = stream_pair(&peer);
	send_text(peer, "{\"parameters\":{\"n\":1}} ", -1);
	send_text(peer, "{\"parameters\":{\"n\":2}}x", -1);
	send_text(peer, "{\"parameters\":{\"n\":3}}", -1);
	CHECK_EQ(receive_number(s, NULL), 1);
	CHECK_EQ(receive_number(s, NULL), -EBADMSG);
	CHECK_EQ(receive_number(s, NULL), -EBADMSG);
	varlink_stream_free(s);
	close(peer);
	memset(piece, 'x', sizeof(piece) - 1);
	CHECK_EQ(varlink_connect(piece, -1, &s), -ENAMETOOLONG);
	CHECK_EQ(varlink_connect("/nonexistent/csight.sock", 0, &s), -ENOENT);
}

int main(void)
{
	test_calls();
	test_replies();
	test_put();
	test_pipeline();
	test_descriptors();
	test_limits();
	return unit_end();
}
