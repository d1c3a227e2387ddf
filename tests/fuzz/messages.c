/* SPDX-License-Identifier: MIT */
/*
 * lib/base/json.c, lib/varlink: one message; the first byte chooses its kind. An accepted message is written again and
 * must parse to the same value.
 */
#include "config.h"

#include <string.h>
#include <sys/socket.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/varlink/varlink.h"
#include "tests/fuzz/fuzz.h"

enum { SMALL = 64 << 10 };

static void json(const char *text, size_t size)
{
	_cleanup_json_ json_object *o = NULL, *again = NULL;
	const char *out;

	if (json_parse(text, size, &o) < 0)
		return;
	out = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	fuzz_require(json_parse(out, strlen(out), &again) == 0 && json_object_equal(o, again));
}

static void call(const char *text, size_t size)
{
	struct varlink_call c, again;
	_cleanup_buf_ struct buf b = { 0 };

	if (varlink_call_parse(text, size, &c) < 0)
		return;
	varlink_put_call(&b, c.method, c.parameters, c.more);
	fuzz_require(buf_error(&b) == 0 && varlink_call_parse((char *)b.data, b.size - 1, &again) == 0);
	fuzz_require(strcmp(c.method, again.method) == 0 && json_object_equal(c.parameters, again.parameters));
	varlink_call_done(&again);
	varlink_call_done(&c);
}

static void reply(const char *text, size_t size)
{
	struct varlink_reply r;

	if (varlink_reply_parse(text, size, &r) == 0)
		varlink_reply_done(&r);
}

/* The message arrives in two parts, as from a socket. */
static void stream(const char *text, size_t size)
{
	struct varlink_stream *s;
	struct varlink_reply r;
	int pair[2];

	fuzz_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	fuzz_require(varlink_stream_wrap(pair[0], &s) == 0);
	if (io_write(pair[1], text, size) == 0) {
		close(pair[1]);
		while (varlink_receive(s, -1, &r, NULL) == 0)
			varlink_reply_done(&r);
	} else {
		close(pair[1]);
	}
	varlink_stream_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const texts[])(const char *text, size_t size) = { json, call, reply, stream };
	const char *text = (const char *)data + 1;

	if (size < 1 || size > SMALL)
		return 0;
	texts[data[0] & 3](text, size - 1);
	return 0;
}

void fuzz_seeds(void)
{
	static const char *const seeds[] = {
		"0{\"a\":[1,-2,3.5e1,true,null,{\"b\":\"\\u00e9\\ud83d\\ude00\"}],\"c\":18446744073709551615}",
		"1{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":4000},\"more\":true}",
		"1{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":4000,\"record\":{\"maxTime\":1}},"
		"\"more\":true}",
		"2{\"error\":\"org.csight.NotArmed\",\"parameters\":{\"pid\":1}}",
		"2{\"continues\":true,\"parameters\":{}}",
	};
	static const char two[] = "3{\"parameters\":{},\"continues\":true}\0{\"error\":\"a.b\"}";

	for (size_t i = 0; i < ELEMENTS(seeds); i++)
		fuzz_seed(seeds[i], strlen(seeds[i]));
	fuzz_seed(two, sizeof(two));
}
