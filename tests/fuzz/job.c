/* SPDX-License-Identifier: MIT */
/*
 * The job protocol: lib/decoder as the owner, daemon/decode/job.c as the child. The input is one message of the other
 * side; its first byte chooses who receives it, and with how many descriptors. All that came are closed.
 */
#include "config.h"

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

/* The owner accepts whatever text the child gives as the reason of a failure. */
static void failed(int fd)
{
	char text[256];
	ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
	struct decoder_event e = { 0 };
	struct decode_job j;
	int pair[2];

	fuzz_require(n >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	text[n] = 0;
	j = (struct decode_job){ .socket = pair[1] };
	if (job_failed(&j, text) == 0) {
		fuzz_require(decoder_receive(pair[0], MSG_DONTWAIT, &e) == 0 && e.type == DECODER_FAILED);
		decoder_event_done(&e);
	}
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
	static void (*const takers[])(int fd) = { event, ended, start, image, file, table, failed, event };
	int pair[2], fds[3] = { 0, 0, 0 }, before;

	/* An empty message would end the stream. */
	if (size < 2 || size > SMALL)
		return 0;
	before = lowest();
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	if (io_send_fds(pair[1], data + 1, size - 1, fds, data[0] >> 4 & 3) == 0)
		takers[data[0] & 7](pair[0]);
	close(pair[0]);
	close(pair[1]);
	fuzz_require(lowest() == before);
	return 0;
}

void fuzz_seeds(void)
{
	static const char *const seeds[] = {
		"0{\"type\":\"image\",\"index\":1,\"path\":\"/bin/x\",\"build_id\":\"ab\",\"inode\":7}",
		"0{\"type\":\"image\",\"index\":1,\"path\":\"/bin/x\",\"debug\":\"x.debug\",\"attempt\":2}",
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
		"F{}",
	};

	for (size_t i = 0; i < ELEMENTS(seeds); i++)
		fuzz_seed(seeds[i], strlen(seeds[i]));
}
