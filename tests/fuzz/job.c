/* SPDX-License-Identifier: MIT */
/*
 * The job protocol: lib/decoder as the owner, daemon/decode/job.c as the child. The first byte of the input chooses who
 * gets the rest: one of them as a message of the other side, with some descriptors, or both as the texts that they
 * exchange. All descriptors that came are closed.
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

enum { SMALL = 64 << 10 };

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

	if (decoder_receive_end(fd, MSG_DONTWAIT, &job, &status) == 0)
		fuzz_require(status >= 0 && status <= 0xffff);
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
	/* Many times the same, so that the result is too large, and is cut. */
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

/* The input is snapshot.json, and the options. */
static void both(int fd)
{
	static const char *const formats[] = { "store", "elements" };
	size_t size, number;
	_cleanup_free_ char *text = receive_text(fd, &size);
	_cleanup_json_ json_object *o = NULL;
	int pair[2];

	if (json_parse(text, size, &o) < 0 || !json_object_is_type(o, json_type_object))
		return;
	decoder_find_image(o, &(struct decoder_event){ .path = "/bin/x", .build_id = "ab", .inode = 7 }, &number);
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	if (decoder_start(pair[1], &(struct decoder_start){ .input = "perf.data",
							    .code_fd = -1,
							    .jitdump_fd = 0,
							    .outputs = formats,
							    .output_fds = (const int[]){ 0, 0 },
							    .n_outputs = ELEMENTS(formats),
							    .options = o,
							    .snapshot = o,
							    .tables = true }) == 0)
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
	static void (*const takers[])(int fd) = { event, ended, start, image, file,  table, child, owner,
						  both,  event, ended, start, image, file,  table, child };
	int pair[2], fds[3] = { 0, 0, 0 }, before;

	/* An empty message would end the stream. */
	if (size < 2 || size > SMALL)
		return 0;
	before = lowest();
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	if (io_send_fds(pair[1], data + 1, size - 1, fds, data[0] >> 4 & 3) == 0)
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
		"Gsomething",
		"G\xff",
		"H{\"id\":\"x\",\"pid\":7,\"images\":[{\"path\":\"/bin/"
		"x\",\"build_id\":\"ab\",\"inode\":7}],\"intervals\":[{}],"
		"\"threads\":[1],\"thread\":4,\"engine\":\"native\"}",
	};

	for (size_t i = 0; i < ELEMENTS(seeds); i++)
		fuzz_seed(seeds[i], strlen(seeds[i]));
}
