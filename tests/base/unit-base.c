/* SPDX-License-Identifier: MIT */
/* lib/base: array, buf, digest, escape, hash, hex, ini, io, json, parse, reader, reason, texts, util. */
#include "config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/digest.h"
#include "lib/base/duration.h"
#include "lib/base/escape.h"
#include "lib/base/hash.h"
#include "lib/base/hex.h"
#include "lib/base/ini.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/parse.h"
#include "lib/base/quantile.h"
#include "lib/base/reader.h"
#include "lib/base/reason.h"
#include "lib/base/texts.h"
#include "tests/unit.h"

static void test_reader(void)
{
	static const uint8_t bytes[] = { 1, 2, 3, 4, 5, 'a', 'b', 0, 0xff };
	struct reader r = reader_of(bytes, sizeof(bytes)), sub;
	const char *text = NULL;
	uint64_t v64 = 99;
	uint32_t v32;

	CHECK(rd_u32(&r, &v32) == 0 && v32 == 0x04030201);
	CHECK(rd_u64(&r, &v64) == -EBADMSG && v64 == 99);
	CHECK_EQ(rd_left(&r), 5);
	CHECK(rd_skip(&r, 1) == 0 && rd_str(&r, &text) == 0);
	CHECK_STR(text, "ab");
	CHECK(rd_str(&r, &text) == -EBADMSG);
	CHECK(rd_varint(&r, &v64) == -EBADMSG && rd_left(&r) == 1);
	CHECK(rd_sub(&r, 2, &sub) == -EBADMSG && rd_sub(&r, SIZE_MAX, &sub) == -EBADMSG);
	r = reader_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
	CHECK(rd_varint(&r, &v64) == 0 && v64 == UINT64_MAX);
	r = reader_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10);
	CHECK(rd_varint(&r, &v64) == -EBADMSG);
	CHECK(rd_leb(&r, false, &v64) == 0 && v64 == INT64_MAX && rd_left(&r) == 0);
	CHECK(rd_leb(&r, false, &v64) == -EBADMSG);
	r = reader_of("\x85\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x7f\x80", 14);
	CHECK(rd_leb(&r, false, &v64) == 0 && v64 == 5);
	CHECK(rd_leb(&r, true, &v64) == 0 && (int64_t)v64 == -1);
	CHECK(rd_leb(&r, true, &v64) == -EBADMSG && rd_left(&r) == 1);
}

static void test_digest(void)
{
	/* Of RFC 7693 there is only a vector of 64 bytes; these are of b2sum -l 256, for so many bytes from 0 on. */
	static const struct {
		size_t size;
		const char *want;
	} cases[] = {
		{ 0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8" },
		{ 1, "03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314" },
		{ 127, "f2fe67ff342e21b8f45e8f2e0bcd1d9243245d50ee6c78042e9c491388791c72" },
		{ 128, "c3582f71ebb2be66fa5dd750f80baae97554f3b015663c8be377cfcb2488c1d1" },
		{ 129, "f7f3c46ba2564ff4c4c162da1f5b605f9f1c4aa6a20652a9f9a337c1a2f5b9c9" },
		{ 256, "39a7eb9fedc19aabc83425c6755dd90e6f9d0c804964a1f4aaeea3b9fb599835" },
		{ 1000, "c636324d47d89f2b2434dc2c994100663fbbaea880ff020fc5de89dd0f77a1ec" },
	};
	static uint8_t bytes[1000];
	char text[DIGEST_TEXT];
	struct digest d;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (size_t i = 0; i < ELEMENTS(cases); i++)
		for (size_t piece = 1; piece <= cases[i].size + 1; piece += 63) {
			digest_begin(&d);
			for (size_t at = 0; at < cases[i].size; at += piece)
				digest_add(&d, bytes + at, MIN(piece, cases[i].size - at));
			digest_end(&d, text);
			CHECK_STR(text, cases[i].want);
		}
}

/* Multiples of the inverse of a multiplier that the table once had: all in one place, they took minutes. */
static void test_hash_of_attacker(void)
{
	enum { KEYS = 200000, SECONDS_MAX = 3 };
	const uint64_t step = 0xf1de83e19937733d;
	struct hash h = { 0 };
	clock_t begun = clock();
	size_t n = 0, different = 0;
	uint32_t *value;

	CHECK_EQ(step * 0x9e3779b97f4a7c15, 1);
	while (n < KEYS && clock() - begun < (clock_t)SECONDS_MAX * CLOCKS_PER_SEC)
		different += hash_find(&h, ++n * step, 0, &value) == 1;
	CHECK_EQ(different, KEYS);
	hash_done(&h);
}

/* All bytes count: texts that differ in any one of them differ in their hash. */
static void test_hash_bytes(void)
{
	static const char text[] = "a text of more than two words of eight bytes";
	char other[sizeof(text)];
	bool right = true;

	memcpy(other, text, sizeof(text));
	for (size_t size = 0; size <= sizeof(text); size++) {
		right = right && hash_bytes(other, size) == hash_bytes(text, size);
		right = right && (!size || hash_bytes(text, size) != hash_bytes(text, size - 1));
		for (size_t i = 0; i < size; i++, other[i - 1] ^= 1) {
			other[i] ^= 1;
			right = right && hash_bytes(other, size) != hash_bytes(text, size);
		}
	}
	CHECK(right);
}

static void test_hash(void)
{
	struct hash h = { 0 };
	struct texts texts = { 0 };
	uint32_t *value, place = 0, again = 0;
	bool right = true;

	for (uint32_t i = 0; i < 5000; i++) {
		right = right && hash_find(&h, i, i / 2, &value) == 1;
		*value = i;
	}
	for (uint32_t i = 0; i < 5000; i++)
		right = right && hash_find(&h, i, i / 2, &value) == 0 && *value == i;
	CHECK(right);
	value = hash_get(&h, 70, 35);
	CHECK(value && *value == 70);
	CHECK(!hash_get(&h, 70, 36));
	hash_clear(&h);
	CHECK(!hash_get(&h, 70, 35));
	CHECK(hash_find(&h, 7, 3, &value) == 1);
	hash_done(&h);
	CHECK(texts_find(&texts, "", &place) == 0 && place == 0);
	CHECK(texts_find(&texts, "name", &place) == 0 && place == 1);
	CHECK(texts_find(&texts, "other", &place) == 0 && place == 6);
	CHECK(texts_find(&texts, "name", &again) == 0 && again == 1 && texts.bytes.size == 12);
	CHECK_STR((const char *)texts.bytes.data + place, "other");
	texts_done(&texts);
}

static void test_hex(void)
{
	static const uint8_t bytes[] = { 0, 0x9a, 0xff };
	_cleanup_buf_ struct buf b = { 0 };
	uint8_t back[4];
	char text[7];

	hex_encode(bytes, sizeof(bytes), text);
	CHECK_STR(text, "009aff");
	CHECK(hex_decode(text, 6, back, sizeof(back)) == 3 && memcmp(back, bytes, 3) == 0);
	CHECK_EQ(hex_decode(text, 5, back, sizeof(back)), 2);
	CHECK_EQ(hex_decode(text, 6, back, 1), 1);
	CHECK_EQ(hex_decode("00Fg", 4, back, sizeof(back)), 1);
	hex_append(&b, bytes, sizeof(bytes));
	hex_append(&b, bytes, 1);
	CHECK(b.size == 8 && memcmp(b.data, "009aff00", 8) == 0);
	hex_random(text, sizeof(text));
	CHECK(strlen(text) == 6 && strspn(text, "0123456789abcdef") == 6);
}

static void test_ranges(void)
{
	static const char *const lists[] = { "4",  "x",  "0,x", "0 ",  "2-1",
					     "-1", "1-", ",1",  "0-4", "99999999999999999999999" };
	bool set[4] = { false };

	for (size_t n = 0; n < ELEMENTS(lists); n++)
		CHECK_EQ(parse_ranges(lists[n], set, ELEMENTS(set)), -EINVAL);
	memset(set, 0, sizeof(set));
	CHECK_EQ(parse_ranges("", set, ELEMENTS(set)), 0);
	CHECK(!set[0] && !set[1] && !set[2] && !set[3]);
	CHECK_EQ(parse_ranges("3,0-1", set, ELEMENTS(set)), 0);
	CHECK(set[0] && set[1] && !set[2] && set[3]);
}

static void test_parse(void)
{
	static const char *const sizes[] = { "", "K", "1KB", "-1", " 1", "+1", "1 K", "16777216T", "1k" };
	uint64_t u = 0;
	int64_t i = 0;

	CHECK(parse_i64("-12", -12, 5, &i) == 0 && i == -12);
	CHECK(parse_i64("6", -12, 5, &i) == -EINVAL && parse_i64("-13", -12, 5, &i) == -EINVAL);
	CHECK(parse_i64("", -12, 5, &i) == -EINVAL && parse_i64("-", -12, 5, &i) == -EINVAL);
	CHECK(parse_i64("1x", -12, 5, &i) == -EINVAL && i == -12);
	test_ranges();
	CHECK(parse_u64("0x1F", UINT64_MAX, &u) == 0 && u == 31);
	CHECK(parse_u64("010", 10, &u) == 0 && u == 10);
	CHECK(parse_u64("11", 10, &u) == -EINVAL && parse_u64("0x", 10, &u) == -EINVAL);
	CHECK(parse_u64("99999999999999999999", UINT64_MAX, &u) == -EINVAL);
	CHECK(parse_size("64", &u) == 0 && u == 64);
	CHECK(parse_size("3M", &u) == 0 && u == 3 << 20);
	CHECK(parse_size("16777215T", &u) == 0 && u == 16777215ull << 40);
	for (size_t n = 0; n < ELEMENTS(sizes); n++)
		unit_check(parse_size(sizes[n], &u) == -EINVAL, __FILE__, __LINE__, "refused size: '%s'", sizes[n]);
}

/* Appends "line section key value;" to the buffer. */
static int add_entry(void *user, const struct ini_entry *e)
{
	buf_printf(user, "%u %s %s %s;", e->line, e->section, e->key, e->value);
	return strcmp(e->key, "stop") == 0 ? -ECANCELED : 0;
}

static void test_ini(void)
{
	static const char text[] = "a=1\n\n [ one ] # x\r\n b = 2 # y ; z\n;\n#=\n";
	_cleanup_buf_ struct buf b = { 0 };
	unsigned line = 0;

	CHECK_EQ(ini_read(text, strlen(text), INI_COMMENTS_ANYWHERE, add_entry, &b, &line), 0);
	buf_u8(&b, 0);
	CHECK_STR((const char *)b.data, "1  a 1;4 one b 2;");
	buf_clear(&b);
	CHECK_EQ(ini_read("a = b # c\n # d\n", 15, INI_COMMENTS_LINES, add_entry, &b, &line), 0);
	buf_u8(&b, 0);
	CHECK_STR((const char *)b.data, "1  a b # c;");
	CHECK(ini_read("a=1\nb", 5, INI_COMMENTS_LINES, add_entry, &b, &line) == -EBADMSG && line == 2);
	CHECK(ini_read("[a\n", 3, INI_COMMENTS_LINES, add_entry, &b, &line) == -EBADMSG && line == 1);
	CHECK(ini_read("a=\0\n", 4, INI_COMMENTS_LINES, add_entry, &b, &line) == -EBADMSG);
	CHECK(ini_read("stop=\na\n", 8, INI_COMMENTS_LINES, add_entry, &b, &line) == -ECANCELED && line == 1);
}

/* AddressSanitizer must let an allocation of impossible size fail with NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void test_array(void)
{
	_cleanup_free_ uint64_t *list = NULL;
	size_t capacity = 0, huge = SIZE_MAX / sizeof(*list);
	uint64_t *before;
	bool kept = true;

	for (size_t n = 0; n < 1000; n++) {
		if (array_reserve(list, n, &capacity) < 0 || capacity <= n)
			break;
		list[n] = n;
	}
	CHECK(capacity >= 1000);
	for (size_t n = 0; n < 1000; n++)
		kept = kept && list[n] == n;
	CHECK(kept);
	before = list;
	CHECK(array_reserve(list, huge, &huge) == -ENOMEM && list == before && huge == SIZE_MAX / sizeof(*list));
}

static void test_buf(void)
{
	_cleanup_buf_ struct buf b = { .limit = 40 };
	struct reader r;
	uint64_t v;

	buf_varint(&b, 300);
	buf_printf(&b, "%s-%d", "x", 7);
	CHECK_EQ(b.size, 5);
	r = reader_of(b.data, b.size);
	CHECK(rd_varint(&r, &v) == 0 && v == 300);
	buf_zero(&b, 100);
	CHECK_EQ(buf_error(&b), -EFBIG);
	buf_u8(&b, 1);
	CHECK_EQ(b.size, 5);
}

static void test_escape(void)
{
	char out[64], small[6];

	CHECK_STR(escape_text("plain \xc3\xa9", out, sizeof(out)), "plain \xc3\xa9");
	CHECK_STR(escape_text("\x1b[31m\n", out, sizeof(out)), "\\x1b[31m\\x0a");
	CHECK_STR(escape_text("\xff\xc0\x80", out, sizeof(out)), "\\xff\\xc0\\x80");
	CHECK_STR(escape_text("\xe2\x80\xae", out, sizeof(out)), "\\xe2\\x80\\xae");
	CHECK_STR(escape_text("abc\x01", small, sizeof(small)), "abc");
}

static json_object *parse(const char *text)
{
	json_object *o = NULL;

	return json_parse(text, strlen(text), &o) == 0 ? o : NULL;
}

static void check_round_trip(const char *text, unsigned form, const char *want)
{
	_cleanup_json_ json_object *o = parse(text);
	_cleanup_free_ char *got = json_text(o, form);

	CHECK_STR(got ? got : "none", want);
}

static void test_json_text(void)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	json_object *list = json_object_new_array();
	_cleanup_free_ char *text = NULL;

	check_round_trip(" { \"a\" : [ 1 , -2.50, true ,false, null ,{ } ,[ ] ] } ", JSON_PLAIN,
			 "{\"a\":[1,-2.50,true,false,null,{},[]]}");
	check_round_trip("{\"a\":[1],\"b\":{}}", JSON_PRETTY, "{\n  \"a\":[\n    1\n  ],\n  \"b\":{}\n}");
	check_round_trip("[\"</s>\\u000A\\\"\\\\\"]", JSON_SLASHES, "[\"<\\/s>\\n\\\"\\\\\"]");
	check_round_trip("[\"\\u00e9\\ud83d\\ude00\\ud83d \\u0000\\u202e\\u0085\\u001b\\u007f\"]", JSON_PLAIN,
			 "[\"\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd \\u0000\\u202e\\u0085\\u001b\\u007f\"]");
	check_round_trip("[0,-0,1e3,9223372036854775807,-9223372036854775808]", JSON_PLAIN,
			 "[0,0,1e3,9223372036854775807,-9223372036854775808]");
	/* NULL stands for a value for which there was no memory. */
	json_add_double(o, "third", 1.0 / 4);
	json_array_add_null(list);
	json_array_add(list, NULL);
	CHECK(json_is_incomplete(list));
	json_add(o, "list", list);
	CHECK(json_is_incomplete(o));
	text = json_text(o, JSON_PLAIN);
	CHECK(text == NULL && json_text(NULL, JSON_PLAIN) == NULL);
	json_add_str(NULL, "key", "text");
}

static void test_json(void)
{
	static const char *const bad[] = {
		"",
		"{",
		"{}x",
		"{'a':1}",
		"{\"a\":NaN}",
		"{\"a\":1,\"a\":2}",
		"{\"b\":{\"a\":1,\"a\":2}}",
		"[1,]",
		"{\"a\":01}",
		"\"\x01\"",
		"{\"a\":99999999999999999999}",
		"\"\\u00g0\"",
		"{\"a\":tru}",
		"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]",
		"\"\xff\"",
		"{\"a\":9223372036854775808}",
		"{\"a\":-9223372036854775809}",
		"Infinity",
		"{\"a\":1,}",
		"{\"a\" 1}",
		"{\"a\":-01}",
		"{\"a\":1.}",
		"{\"a\":1e}",
		"{\"a\":1e8000}",
		"[-1e8000]",
		"{\"a\":truefalse}",
		"[1 2]",
		"[\"\\x\"]",
		"[\"\\",
		"[/* */1]",
		"{a:1}",
		"TRUE",
		"{}{}",
	};
	_cleanup_json_ json_object *o =
	    parse(" {\"a\": 12, \"s\": \"x\\u0000y\", \"t\": \"12\", \"f\": 1.5, \"n\": null, "
		  "\"neg\": -1, \"b\": true, \"deep\": [[[[1]]]]} ");
	const char *text = NULL;
	uint64_t u = 0;
	_cleanup_json_ json_object *most = parse("{\"ns\": 9223372036854775807}");
	int64_t i = 0;
	bool b = false;

	if (!CHECK(o != NULL))
		return;
	CHECK(json_get_i64(most, "ns", &i) == 0 && i == INT64_MAX);
	CHECK(json_get_i64(o, "a", &i) == 0 && i == 12);
	CHECK_EQ(json_get_i64(o, "t", &i), -EINVAL);
	CHECK_EQ(json_get_i64(o, "f", &i), -EINVAL);
	CHECK_EQ(json_get_i64(o, "n", &i), -ENOENT);
	CHECK_EQ(json_get_u64(o, "neg", &u), -EINVAL);
	CHECK_EQ(json_get_str(o, "s", &text), -EINVAL);
	CHECK(json_get_bool(o, "b", &b) == 0 && b);
	for (size_t n = 0; n < ELEMENTS(bad); n++) {
		json_object *wrong = parse(bad[n]);

		unit_check(!wrong, __FILE__, __LINE__, "refused: JSON case %zu", n);
		json_object_put(wrong);
	}
	o = (json_object_put(o), json_object_new_object());
	json_add_bytes(o, "k", "a\xff z");
	CHECK(json_get_str(o, "k", &text) == 0);
	CHECK_STR(text, "a\xef\xbf\xbd z");
}

/* Returns the lowest descriptor that is free. */
static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void test_fdmsg(void)
{
	int pair[2], fds[3], got[2], lowest;
	char text[16];
	size_t n;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	for (int i = 0; i < 3; i++)
		fds[i] = memfd_create("test", MFD_CLOEXEC);
	CHECK_EQ(io_send_fds(pair[0], "hello", 5, fds, 2), 0);
	n = 2;
	CHECK_EQ(io_receive_fds(pair[1], text, sizeof(text), got, &n, 0), 5);
	CHECK_EQ(n, 2);
	CHECK(fcntl(got[0], F_GETFD) == FD_CLOEXEC);
	close(got[0]);
	close(got[1]);
	lowest = lowest_free();
	/* A message with more descriptors than the receiver accepts is refused, and none of them stays open. */
	CHECK_EQ(io_send_fds(pair[0], "x", 1, fds, 3), 0);
	n = 2;
	CHECK_EQ(io_receive_fds(pair[1], text, sizeof(text), got, &n, 0), -EMSGSIZE);
	CHECK_EQ(lowest_free(), lowest);
	/* Nor do those of an empty message, which looks like the end of the connection. */
	CHECK_EQ(io_send_fds(pair[0], "", 0, fds, 2), 0);
	n = 2;
	CHECK_EQ(io_receive_fds(pair[1], text, sizeof(text), got, &n, 0), 0);
	CHECK_EQ(n, 0);
	CHECK_EQ(lowest_free(), lowest);
	CHECK_EQ(io_send_fds(pair[0], "0123456789abcdefXX", 18, NULL, 0), 0);
	CHECK_EQ(io_receive_fds(pair[1], text, sizeof(text), NULL, NULL, 0), -EMSGSIZE);
	close(pair[0]);
	CHECK_EQ(io_receive_fds(pair[1], text, sizeof(text), NULL, NULL, 0), 0);
	close(pair[1]);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

static void test_read_file(void)
{
	char path[] = "/tmp/csight-unit-XXXXXX", *text = NULL;
	int fd = mkstemp(path);
	size_t size = 0;

	CHECK_EQ(io_write(fd, "content", 7), 0);
	CHECK(io_read_file(AT_FDCWD, path, 100, &text, &size) == 0 && size == 7);
	CHECK_STR(text, "content");
	free(text);
	CHECK_EQ(io_read_file(AT_FDCWD, path, 6, &text, &size), -EFBIG);
	CHECK_EQ(io_read_file(AT_FDCWD, "/tmp", 6, &text, &size), -EINVAL);
	CHECK_EQ(io_write_file(AT_FDCWD, path, "new", 3, 0600), 0);
	CHECK(io_read_file(AT_FDCWD, path, 100, &text, &size) == 0 && size == 3);
	free(text);
	close(fd);
	unlink(path);
}

/* Of a file that is on disk alone, or of which one page is in memory. */
static void test_pread_nowait(void)
{
	char path[] = "/tmp/csight-unit-XXXXXX";
	static uint8_t bytes[5 << 12], got[sizeof(bytes) + 100];
	int fd = mkstemp(path);

	unlink(path);
	memset(bytes, 7, sizeof(bytes));
	CHECK_EQ(io_write(fd, bytes, sizeof(bytes) - 7), 0);
	CHECK_EQ(fsync(fd), 0);
	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_EQ(io_pread_bounded(fd, got, 100, sizeof(bytes) - 50), 43);
	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
	CHECK_EQ(pread(fd, got, 1, 0), 1);
	CHECK_EQ(io_pread_bounded(fd, got, sizeof(got), 0), sizeof(bytes) - 7);
	CHECK(memcmp(got, bytes, sizeof(bytes) - 7) == 0);
	CHECK_EQ(io_pread_bounded(fd, got, 1, sizeof(bytes)), 0);
	close(fd);
	CHECK_EQ(io_pread_bounded(fd, got, 1, 0), -EBADF);
}

static void test_reason(void)
{
	struct reason r = { "" };

	CHECK_EQ(reason_set(NULL, -EPERM, "%s", "unused"), -EPERM);
	CHECK_EQ(reason_set(&r, -EINVAL, "cannot open '%s': %d", "x", 7), -EINVAL);
	CHECK_STR(r.text, "cannot open 'x': 7");
	CHECK_EQ(reason_set(&r, -EIO, "%600s", "long"), -EIO);
	CHECK_EQ(strlen(r.text), sizeof(r.text) - 1);
}

static void test_duration(void)
{
	static const struct {
		uint64_t ns, bound;
		const char *text;
	} durations[] = {
		/* Exact, or of unknown error: one decimal, and none of nanoseconds. */
		{ 0, 0, "0 ns" },
		{ 999, 0, "999 ns" },
		{ 1234, 0, "1.2 us" },
		{ 24421304, 0, "24.4 ms" },
		{ 1500000000, 0, "1.5 s" },
		{ 209000000000, 0, "3 min 29 s" },
		{ 7260000000000, 0, "2 h 1 min" },
		{ 180000000000000, 0, "2 days 2 h" },
		{ UINT64_MAX, 0, "213503 days 23 h" },
		/* No digit below the first of the bound. */
		{ 123, 1, "123 ns" },
		{ 123, 54, "120 ns" },
		{ 1234, 54, "1.2 us" },
		{ 24421304, 54, "24.4 ms" },
		{ 24421304, 900000, "24.4 ms" },
		{ 24421304, 3000000, "24 ms" },
		{ 24621304, 3000000, "25 ms" },
		{ 24421304, 19000000, "20 ms" },
		{ 123456789, 20000000, "120 ms" },
		{ 995000000, 20000000, "1.0 s" },
		{ 96000, 50000, "100 us" },
		/* Shorter than the bound: one digit. */
		{ 0, 1, "~0 ns" },
		{ 53, 54, "~50 ns" },
		{ 54, 54, "50 ns" },
		{ 3543, 19000000, "~4 us" },
		{ 24421304, 90000000, "~20 ms" },
		{ 96, UINT64_MAX - 1, "~100 ns" },
		{ 978900, 19000000, "~1 ms" },
		{ UINT64_MAX - 2, UINT64_MAX - 1, "~115740 days 17 h" },
		{ 96, UINT64_MAX, "?" },
	};

	for (size_t i = 0; i < ELEMENTS(durations); i++) {
		char text[DURATION_SIZE];

		CHECK_STR(duration_text(durations[i].ns, durations[i].bound, text), durations[i].text);
	}
}

static void test_container_of(void)
{
	struct pair {
		int first;
		uint64_t second;
	} pair;
	uint64_t *member = &pair.second;

	CHECK(container_of(member, struct pair, second) == &pair);
}

static uint64_t quantile_limit(struct quantile *q, uint64_t second)
{
	uint64_t low = 0, high = UINT64_MAX;

	/* The limit of a second does not depend on what is added in it. */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (quantile_add(q, second * 1000000000, middle))
			high = middle;
		else
			low = middle + 1;
	}
	return low - 1;
}

static void test_quantile(void)
{
	static struct quantile q;
	static const uint64_t values[] = { 1, 15, 16, 17, 31, 32, 1000, 123456789, 1ull << 39 };
	uint64_t second = 1000;

	for (size_t i = 0; i < ELEMENTS(values); i++, second += 200) {
		bool early = false;

		for (unsigned n = 0; n < 98; n++)
			early |= quantile_add(&q, second * 1000000000, values[i]);
		CHECK(!early);
		CHECK(!quantile_add(&q, (second + 1) * 1000000000, UINT64_MAX));
		CHECK(!quantile_add(&q, (second + 1) * 1000000000 + 1, values[i]));
		/* 99 of 100 are the value: the limit is that, or less than 1/16 more, until they are a minute old. */
		for (unsigned n = 2; n <= 60; n += 29) {
			struct quantile copy = q;
			uint64_t limit = quantile_limit(&copy, second + n);

			CHECK(limit >= values[i] && limit - values[i] <= values[i] / 16);
		}
		/* Then the first 98 are out, and those that are left are too few. */
		CHECK(!quantile_add(&q, (second + 61) * 1000000000, UINT64_MAX));
	}
	/* Two of 100 are long: so is the percentile. */
	for (unsigned n = 0; n < 100; n++)
		quantile_add(&q, second * 1000000000, n < 98 ? 10 : 1000);
	CHECK(!quantile_add(&q, (second + 1) * 1000000000, 1000));
	CHECK(quantile_add(&q, (second + 1) * 1000000000, 1100));
}

int main(void)
{
	test_container_of();
	test_reason();
	test_duration();
	test_reader();
	test_array();
	test_buf();
	test_escape();
	test_digest();
	test_hash();
	test_hash_of_attacker();
	test_hash_bytes();
	test_hex();
	test_ini();
	test_json();
	test_json_text();
	test_fdmsg();
	test_parse();
	test_quantile();
	test_read_file();
	test_pread_nowait();
	return unit_end();
}
