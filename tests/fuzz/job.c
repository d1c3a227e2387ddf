/* SPDX-License-Identifier: MIT */
/*
 * The job protocol: lib/decoder as the owner, daemon/decode/job.c as the child. The first byte of the input chooses who
 * gets the rest: one of them as a message of the other side, with some descriptors, or both as the texts that they
 * exchange. The descriptors are a file with the description of a snapshot. All descriptors that came are closed.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/decode/job.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/decoder/decoder.h"
#include "tests/fuzz/fuzz.h"

enum { SMALL = 64 << 10, LABEL_SIZE = 1 << 10, LABELS_MAX = 300 };

static void event(int fd)
{
	struct decoder_event e = { 0 };

	if (decoder_receive(fd, MSG_DONTWAIT, &e) == 0) {
		fuzz_require(e.type != DECODER_IMAGE || e.path);
		fuzz_require(e.type != DECODER_FAILED || e.reason);
		decoder_event_done(&e);
	}
}

static void ended(int fd)
{
	uint64_t job;
	int status;

	char text[128] = "";

	if (decoder_receive_end(fd, MSG_DONTWAIT, &job, &status) < 0)
		return;
	fuzz_require(status >= 0 && status <= 0xffff);
	decoder_death(status, text, sizeof(text));
	fuzz_require(text[0] != 0);
}

static void start(int fd)
{
	struct decode_job j;

	if (job_receive(fd, &j) < 0)
		return;
	fuzz_require(j.input >= 0 || (j.n_files && j.n_files <= DECODER_FILES_MAX));
	fuzz_require(j.n_outputs <= DECODER_OUTPUTS_MAX);
	closep(&j.input);
	closep(&j.code);
	closep(&j.jitdump);
	for (size_t i = 0; i < j.n_files; i++)
		close(j.files[i]);
	for (size_t i = 0; i < j.n_outputs; i++)
		close(j.outputs[i].fd);
	json_object_put(j.start);
}

static void image(int fd)
{
	struct decode_job j = { .socket = fd };
	const struct job_image_request request = { .index = 1, .path = "/bin/prog", .inode = 7 };
	int got = -1;

	if (job_image(&j, &request, &got, NULL) == 0)
		closep(&got);
}

static void file(int fd)
{
	struct decode_job j = { .socket = fd };
	int got = -1;

	if (job_file(&j, "regs.ini", &got, NULL) == 0)
		closep(&got);
}

static void table(int fd)
{
	struct decode_job j = { .socket = fd, .tables = true };
	int got = -1;

	if (job_table(&j, "key", &got) == 0)
		closep(&got);
}

/* Receives the input as a text, which the caller frees. */
static char *receive_text(int fd, size_t *ret_size)
{
	char *text = malloc(SMALL);
	ssize_t n = text ? recv(fd, text, SMALL - 1, MSG_DONTWAIT) : -1;

	fuzz_require(n >= 0);
	text[n] = 0;
	*ret_size = (size_t)n;
	return text;
}

/* The owner accepts what the child sends, whatever texts it has. */
static void to_owner(int owner, enum decoder_event_type type)
{
	struct decoder_event e = { 0 };

	fuzz_require(decoder_receive(owner, MSG_DONTWAIT, &e) == 0 && e.type == type);
	fuzz_require(e.has_fd == (type == DECODER_KEEP));
	decoder_event_done(&e);
}

static void child(int fd)
{
	size_t size;
	_cleanup_free_ char *text = receive_text(fd, &size);
	_cleanup_json_ json_object *o = json_object_new_object();
	struct decode_job j = { 0 };
	json_object *value;
	int pair[2];

	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	j.socket = pair[1];
	if (job_failed(&j, text) == 0)
		to_owner(pair[0], DECODER_FAILED);
	if (job_keep(&j, "key", pair[0]) == 0)
		to_owner(pair[0], DECODER_KEEP);
	job_progress(&j, size, SMALL);
	to_owner(pair[0], DECODER_PROGRESS);
	/* Many times the same, so that a result which is not small is too large, and is cut. */
	json_add_str(o, "type", "result");
	if (json_parse(text, size, &value) == 0) {
		json_object *list = json_object_new_array();

		for (size_t i = 0; i < (size_t)text[0] << 6; i++)
			json_object_array_add(list, json_object_get(value));
		json_add(o, "threads", list);
		json_object_put(value);
		if (job_result(&j, o) == 0)
			to_owner(pair[0], DECODER_RESULT);
	}
	close(pair[0]);
	close(pair[1]);
}

/* The child accepts the owner's replies, whatever the reasons are. */
static void owner(int fd)
{
	size_t size;
	_cleanup_free_ char *text = receive_text(fd, &size);
	const struct job_image_request request = {
		.index = 7, .path = text, .build_id = "ab", .inode = 7, .debug = "x", .attempt = 1
	};
	struct decode_job j = { .tables = true };
	int pair[2], got = -1;

	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	j.socket = pair[1];
	if (decoder_reply_image(pair[0], 7, -1, text) == 0)
		fuzz_require(job_image(&j, &request, &got, &j.reason) == 0 && got < 0);
	if (decoder_reply_file(pair[0], pair[0], NULL) == 0)
		fuzz_require(job_file(&j, text, &got, NULL) == 0 && got >= 0);
	closep(&got);
	if (decoder_reply_table(pair[0], -1) == 0)
		fuzz_require(job_table(&j, "key", &got) == 0 && got < 0);
	close(pair[0]);
	close(pair[1]);
}

/* The server gets what the owner requests. */
static void expect(int server, const char *key, uint64_t job, size_t n_expected)
{
	char text[SMALL];
	int fds[2] = { -1, -1 };
	size_t n_fds = ELEMENTS(fds);
	ssize_t n = io_receive_fds(server, text, sizeof(text), fds, &n_fds, MSG_DONTWAIT);
	_cleanup_json_ json_object *o = NULL;
	uint64_t value;

	fuzz_require(n > 0 && n_fds == n_expected && json_parse(text, (size_t)n, &o) == 0);
	fuzz_require(json_get_u64(o, key, &value) == 0 && value == job);
	closep(&fds[0]);
}

/* The input is the number of a job. */
static void requests(int fd)
{
	size_t size;
	_cleanup_free_ char *text = receive_text(fd, &size);
	uint64_t job = 0;
	int pair[2], child = -1;

	memcpy(&job, text, MIN(size, sizeof(job)));
	job &= INT64_MAX;
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	fuzz_require(decoder_give_log(pair[0], job, 0) == 0);
	expect(pair[1], "log", job, 1);
	fuzz_require(decoder_submit(pair[0], job, &child) == 0);
	expect(pair[1], "job", job, 1);
	closep(&child);
	fuzz_require(decoder_submit_limited(pair[0], job, 1 + size, &child) == 0);
	expect(pair[1], "limit", 1 + size, 1);
	closep(&child);
	fuzz_require(decoder_extend(pair[0], job, size) == 0);
	expect(pair[1], "extend", job, 0);
	fuzz_require(decoder_kill(pair[0], job) == 0);
	expect(pair[1], "kill", job, 0);
	close(pair[0]);
	close(pair[1]);
}

/* Makes the description of a snapshot long: so many times the same label. */
static void lengthen(json_object *o)
{
	char text[LABEL_SIZE];
	json_object *list, *label;
	int64_t n = 0;

	memset(text, 'x', sizeof(text));
	label = json_object_new_string_len(text, sizeof(text));
	if (json_get_within(o, "n_labels", 1, LABELS_MAX, &n) == 0) {
		list = json_object_new_array();
		for (int64_t i = 0; i < n; i++)
			json_array_add(list, json_object_get(label));
		json_add(o, "labels", list);
	}
	json_object_put(label);
}

/* The input is snapshot.json, and the options. */
static void both(int fd)
{
	static const char *const formats[] = { "store", "elements" };
	size_t size, number;
	_cleanup_free_ char *text = receive_text(fd, &size);
	_cleanup_json_ json_object *o = NULL, *options = NULL;
	_cleanup_close_ int description = -1;
	struct decoder_start s = { .input = "perf.data",
				   .code_fd = -1,
				   .jitdump_fd = 0,
				   .outputs = formats,
				   .output_fds = (const int[]){ 0, 0 },
				   .n_outputs = ELEMENTS(formats),
				   .tables = true };
	int pair[2];

	if (json_parse(text, size, &o) < 0 || !json_object_is_type(o, json_type_object))
		return;
	fuzz_require(json_parse(text, size, &options) == 0);
	lengthen(o);
	s.snapshot = o;
	s.options = options;
	decoder_find_image(o, &(struct decoder_event){ .path = "/bin/x", .build_id = "ab", .inode = 7 }, &number);
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	if (decoder_start(pair[1], &s) == 0)
		start(pair[0]);
	fuzz_require(decoder_write_description(o, &description) == 0);
	s.description = &description;
	s.code_fd = 0;
	if (decoder_start(pair[1], &s) == 0)
		start(pair[0]);
	fuzz_require(decoder_start_build_ids(pair[1], (const int[]){ 0, 0 }, 2) == 0);
	start(pair[0]);
	close(pair[0]);
	close(pair[1]);
}

/* The lowest descriptor that is free: the same before and after, if none is left open. */
static int lowest(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const takers[])(int fd) = { event, ended, start, image, file,  table, child,    owner,
						  both,  event, ended, start, image, file,  requests, child };
	static const char description[] = "{\"pid\":7,\"threads\":[1]}";
	static int file = -1;
	int pair[2], before;

	/* An empty message would end the stream. */
	if (size < 2 || size > SMALL)
		return 0;
	if (file < 0)
		file = fuzz_fd(description, strlen(description));
	before = lowest();
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	if (io_send_fds(pair[1], data + 1, size - 1, (const int[]){ file, file, file }, data[0] >> 4 & 3) == 0)
		takers[data[0] & 15](pair[0]);
	close(pair[0]);
	close(pair[1]);
	fuzz_require(lowest() == before);
	return 0;
}

void fuzz_seeds(void)
{
	static const char *const seeds[] = {
		"@{\"type\":\"image\",\"index\":1,\"path\":\"/bin/x\",\"build_id\":\"ab\",\"inode\":7}",
		"@{\"type\":\"image\",\"index\":1,\"path\":\"/bin/x\",\"debug\":\"x.debug\",\"attempt\":2}",
		"@{\"type\":\"file\",\"name\":\"regs.ini\"}",
		"@{\"type\":\"table\",\"key\":\"k\"}",
		"P{\"type\":\"keep\",\"key\":\"k\"}",
		"@{\"type\":\"progress\",\"done\":1,\"total\":2}",
		"@{\"type\":\"failed\",\"reason\":\"why\"}",
		"@{\"type\":\"result\",\"bytes\":3}",
		"A{\"job\":7,\"status\":139}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"none\"],\"options\":{\"thread\":4}}",
		"r{\"type\":\"start\",\"input\":\"perf.data\",\"code\":true,\"outputs\":[\"none\"],\"snapshot\":{}}",
		"R{\"type\":\"start\",\"input\":\"build-ids\"}",
		"r{\"type\":\"start\",\"input\":\"perf.data\",\"jitdump\":true,\"outputs\":[\"none\"]}",
		"b{\"type\":\"start\",\"input\":\"snapshot\",\"outputs\":[\"store\"],\"tables\":true,\"options\":"
		"{\"buffer\":\"b\",\"regs\":\"r\",\"engine\":\"auto\",\"verify\":true,\"inlines\":false,\"workers\":2}"
		"}",
		"C{\"type\":\"image\",\"index\":1,\"reason\":\"none\"}",
		"S{\"type\":\"image\",\"index\":1}",
		"D{\"type\":\"file\",\"reason\":\"none\"}",
		"T{\"type\":\"file\"}",
		"U{\"type\":\"table\"}",
		"F[1,{\"a\":\"b\"}]",
		"C{\"type\":\"image\",\"index\":2}",
		"S{\"type\":\"file\"}",
		"C{\"type\":\"image\",\"index\":1,\"reason\":7}",
		"C[]",
		"Cno JSON",
		"A{\"job\":7,\"status\":31}",
		"A{\"job\":7,\"status\":256}",
		"A{\"job\":7,\"status\":65536}",
		"r{\"type\":\"start\",\"input\":\"perf.data\",\"snapshot\":true,\"outputs\":[\"none\"]}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"unknown\"]}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[7]}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":7}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"info\"]}",
		"r{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"info\",\"none\"]}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[]}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"none\"],\"options\":{\"thread\":-1}}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"none\"],\"options\":{\"workers\":\"\"}}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"code\":1,\"outputs\":[\"none\"]}",
		"b{\"type\":\"start\",\"input\":\"perf.data\",\"tables\":1,\"outputs\":[\"none\"]}",
		"R{\"type\":\"start\",\"input\":\"perf.data\",\"code\":true}",
		"R{\"type\":\"start\"}",
		"R{\"type\":\"other\"}",
		"F{\"a\":\"many of these texts are together longer than a message may be, and are cut\"}",
		"N\1\2\3",
		"Gsomething",
		"G\xff",
		"H{\"id\":\"x\",\"pid\":7,\"images\":[{\"path\":\"/bin/"
		"x\",\"build_id\":\"ab\",\"inode\":7}],\"intervals\":[{}],"
		"\"threads\":[1],\"thread\":4,\"engine\":\"native\"}",
		"H{\"n_labels\":300,\"images\":[{\"path\":\"/bin/x\",\"build_id\":\"ab\",\"inode\":7},7,"
		"{\"path\":\"/bin/y\"},{\"path\":\"/bin/x\",\"build_id\":\"cd\"},{\"path\":\"/bin/x\",\"inode\":8},"
		"{\"path\":\"/bin/x\",\"build_id\":\"ab\"}]}",
		"@{}",
		"@[]",
		"@{\"type\":\"other\"}",
		"@{\"type\":\"image\",\"index\":-1,\"path\":\"/bin/x\"}",
		"@{\"type\":\"image\",\"index\":1,\"path\":\"/bin/x\",\"debug\":\"a/b\"}",
	};

	for (size_t i = 0; i < ELEMENTS(seeds); i++)
		fuzz_seed(seeds[i], strlen(seeds[i]));
}
