/* SPDX-License-Identifier: MIT */
/*
 * lib/base/json.c, lib/varlink: one message, or what a peer sends; the first byte chooses its kind. An accepted message
 * is written again and must parse to the same value.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/varlink/varlink.h"
#include "tests/fuzz/fuzz.h"

enum {
	SMALL = 64 << 10,
	CONNECT_MS = 1000,
	/* Of a part of a stream. */
	FLAG_FD = 1,      /* with a descriptor */
	FLAG_TWO = 2,     /* with one more */
	FLAG_RECEIVE = 4, /* is read before the next one is sent */
};

static struct {
	char dir[32], path[40];
	int listener;
} the;

static void remove_socket(void)
{
	unlink(the.path);
	rmdir(the.dir);
}

/* Connects to this process itself. *ret_peer: the other end. */
static struct varlink_stream *make_stream(bool wait, int *ret_peer)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct varlink_stream *s;

	if (!the.dir[0]) {
		strcpy(the.dir, "/dev/shm/csight-fuzz-XXXXXX");
		fuzz_require(mkdtemp(the.dir) != NULL);
		snprintf(the.path, sizeof(the.path), "%s/peer", the.dir);
		strcpy(a.sun_path, the.path);
		atexit(remove_socket);
		the.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		fuzz_require(bind(the.listener, (struct sockaddr *)&a, sizeof(a)) == 0);
		fuzz_require(listen(the.listener, 1) == 0);
	}
	fuzz_require((wait ? varlink_connect(the.path, CONNECT_MS, &s) : varlink_connect_now(the.path, &s)) == 0);
	*ret_peer = accept4(the.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	fuzz_require(*ret_peer >= 0 && varlink_stream_fd(s) >= 0);
	return s;
}

/* The value, as it is written, parses to the same. */
static void write_again(json_object *o)
{
	_cleanup_json_ json_object *again = NULL;
	_cleanup_free_ char *out = json_text(o, JSON_PLAIN);

	fuzz_require(out && json_parse(out, strlen(out), &again) == 0 && json_object_equal(o, again));
}

/* A member of any type is accepted as one type at most. */
static void get(json_object *o, const char *key)
{
	const char *text;
	int64_t number = 0;
	uint64_t positive;
	bool flag;
	int accepted = (json_get_str(o, key, &text) == 0) + (json_get_bool(o, key, &flag) == 0) +
		       (json_get_i64(o, key, &number) == 0);

	fuzz_require(accepted <= 1);
	if (json_get_u64(o, key, &positive) == 0)
		fuzz_require(positive == (uint64_t)number);
	if (json_get_within(o, key, -1, SMALL, &number) == 0)
		fuzz_require(number >= -1 && number <= SMALL);
}

static void json(const char *text, size_t size)
{
	_cleanup_json_ json_object *o = NULL;

	/* null is no object of json-c. */
	if (json_parse(text, size, &o) < 0 || !o)
		return;
	write_again(o);
	get(o, "absent");
	if (!json_object_is_type(o, json_type_object))
		return;
	json_object_object_foreach (o, key, value) {
		(void)value;
		get(o, key);
	}
}

/* The input is names in any encoding, each with its NUL, and a number. They become valid JSON. */
static void names(const char *text, size_t size)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	json_object *list = json_array_of_texts(text, size);
	uint64_t number = 0;

	memcpy(&number, text, MIN(size, sizeof(number)));
	json_add_u64(o, "number", number);
	json_add_hex(o, "hex", number);
	json_add_i64(o, "signed", (int64_t)number);
	json_add_double(o, "double", (double)number);
	json_array_add_null(list);
	fuzz_require(json_array_size(list) > 0);
	json_add(o, "names", list);
	fuzz_require(!json_is_incomplete(o));
	write_again(o);
}

static void call(const char *text, size_t size)
{
	struct varlink_call c, again;
	_cleanup_buf_ struct buf b = { 0 };
	struct varlink_stream *s;
	char sent[VARLINK_REQUEST_MAX];
	int peer, rc;

	if (varlink_call_parse(text, size, &c) < 0)
		return;
	varlink_put_call(&b, c.method, c.parameters, c.more);
	fuzz_require(buf_error(&b) == 0 && varlink_call_parse((char *)b.data, b.size - 1, &again) == 0);
	fuzz_require(strcmp(c.method, again.method) == 0 && json_object_equal(c.parameters, again.parameters));
	varlink_call_done(&again);
	s = make_stream(true, &peer);
	rc = varlink_send_call(s, c.method, c.parameters, c.more);
	fuzz_require(rc == (b.size <= sizeof(sent) ? 0 : -EMSGSIZE));
	if (rc == 0)
		fuzz_require(recv(peer, sent, sizeof(sent), MSG_WAITALL) == (ssize_t)b.size &&
			     memcmp(sent, b.data, b.size) == 0);
	close(peer);
	varlink_stream_free(s);
	varlink_call_done(&c);
}

static void reply(const char *text, size_t size)
{
	struct varlink_reply r, again;
	_cleanup_buf_ struct buf b = { 0 };

	if (varlink_reply_parse(text, size, &r) < 0)
		return;
	if (r.error)
		varlink_put_error(&b, r.error, r.parameters);
	else
		varlink_put_reply(&b, r.parameters, r.continues);
	fuzz_require(buf_error(&b) == 0 && varlink_reply_parse((char *)b.data, b.size - 1, &again) == 0);
	fuzz_require(!r.error == !again.error && (!r.error || strcmp(r.error, again.error) == 0));
	fuzz_require(r.continues == again.continues && json_object_equal(r.parameters, again.parameters));
	varlink_reply_done(&again);
	varlink_reply_done(&r);
}

/* Receives replies until there is none. */
static void receive(struct varlink_stream *s, int timeout_ms, bool want_fd)
{
	struct varlink_reply r;
	int fd = -1;

	while (varlink_receive(s, timeout_ms, &r, want_fd ? &fd : NULL) == 0) {
		closep(&fd);
		varlink_reply_done(&r);
	}
	fuzz_require(fd < 0);
}

/* The input is what a peer sends in parts: a byte of flags, a byte and the next for the length, the text. */
static void stream(const char *text, size_t size)
{
	const uint8_t *part = (const uint8_t *)text;
	unsigned before = the.dir[0] ? fuzz_count_fds() : 0;
	const int fds[] = { 0, 0 };
	int peer;
	struct varlink_stream *s = make_stream(size & 1, &peer);
	bool sent = true;

	while (size > 3 && sent) {
		size_t length = MIN((size_t)part[1] << 8 | part[2], size - 3);

		/* Too much for the buffer of the socket ends the stream. */
		sent = io_send_fds(peer, part + 3, length, fds,
				   part[0] & FLAG_FD ? 1 + (part[0] & FLAG_TWO) / FLAG_TWO : 0) == 0;
		if (part[0] & FLAG_RECEIVE)
			receive(s, 0, true);
		part += 3 + length;
		size -= 3 + length;
	}
	close(peer);
	receive(s, -1, size & 1);
	varlink_stream_free(s);
	fuzz_require(!before || fuzz_count_fds() == before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const texts[])(const char *text, size_t size) = { json,  call, reply, stream,
									names, json, call,  stream };
	const char *text = (const char *)data + 1;

	if (size < 1 || size > SMALL)
		return 0;
	texts[data[0] & 7](text, size - 1);
	return 0;
}

struct seed_part {
	uint8_t flags;
	const char *text;
	size_t size;
};

static void seed_stream(const struct seed_part *parts, size_t n)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_u8(&b, '3');
	for (size_t i = 0; i < n; i++)
		fuzz_add_part(&b, parts[i].flags, parts[i].text, parts[i].size);
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

void fuzz_seeds(void)
{
	static const char *const seeds[] = {
		"0{\"a\":[1,-2,3.5e1,true,null,{\"b\":\"\\u00e9\\ud83d\\ude00\"}],\"c\":18446744073709551615}",
		"0{\"a\":\"b\\u0000\",\"b\":true,\"c\":-5,\"d\":65536,\"e\":7,\"f\":\"text\",\"g\":null}",
		"1{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":4000},\"more\":true}",
		"1{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":4000,\"record\":{\"maxTime\":1}},"
		"\"more\":true}",
		"1{\"method\":\"org.csight-x.Get9\",\"oneway\":false,\"upgrade\":false,\"parameters\":null}",
		"1{\"method\":\"a-.b.C\"}",
		"1{\"method\":\"a.b_.C\"}",
		"1{\"method\":\"a.b.C_\"}",
		"1{\"method\":\"a.b.C\",\"parameters\":[]}",
		"1{\"method\":\"a.b.C\",\"oneway\":true,\"more\":true}",
		"1{\"method\":\"a.b.C\",\"other\":1}",
		"1[]",
		"2{\"error\":\"org.csight.NotArmed\",\"parameters\":{\"pid\":1}}",
		"2{\"error\":\"nothing\"}",
		"2{\"error\":\"a.b.C\",\"continues\":true}",
		"2{\"continues\":true,\"parameters\":{}}",
		"4name",
		"4\xff\xff\xff\xff\xff\xff\xff\xff\xc3\xa9",
	};
	static const char first[] = "{\"parameters\":{},\"continues\":true}", second[] = "{\"error\":\"a.b.C\"}";
	/* Two messages in three parts; the last part has one message and a half. */
	const struct seed_part plain[] = { { 0, first, 10 },
					   { FLAG_RECEIVE, first + 10, sizeof(first) - 10 },
					   { 0, second, sizeof(second) } };
	const struct seed_part with_fds[] = { { FLAG_FD | FLAG_RECEIVE, first, sizeof(first) },
					      { FLAG_RECEIVE, first, sizeof(first) },
					      { 0, first, sizeof(first) },
					      { FLAG_FD, first, sizeof(first) },
					      { FLAG_FD | FLAG_RECEIVE, second, sizeof(second) } };
	/* A descriptor in the middle of a message, and two with one. */
	const struct seed_part misplaced[] = { { FLAG_RECEIVE, first, 10 },
					       { FLAG_FD, first + 10, sizeof(first) - 10 } };
	const struct seed_part two[] = { { FLAG_FD | FLAG_TWO, first, sizeof(first) } };
	const struct seed_part left[] = { { FLAG_FD, second, sizeof(second) - 1 } };

	for (size_t i = 0; i < ELEMENTS(seeds); i++)
		fuzz_seed(seeds[i], strlen(seeds[i]));
	fuzz_seed("4a\0\xe9t\xe9\0b", 8);
	fuzz_seed("4\0\0\0\0\0\0\0\x80", 9); /* INT64_MIN */
	seed_stream(plain, ELEMENTS(plain));
	seed_stream(with_fds, ELEMENTS(with_fds));
	seed_stream(misplaced, ELEMENTS(misplaced));
	seed_stream(two, ELEMENTS(two));
	seed_stream(left, ELEMENTS(left));
}
