/* SPDX-License-Identifier: MIT */
/* daemon/decode: decodes a perf.data from start to result with every output, as a child of csight-decode does. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "daemon/decode/decode.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/code/captured-code.h"
#include "tests/fuzz/fuzz.h"

static const char start_text[] = "{\"type\":\"start\",\"input\":\"perf.data\",\"code\":true,"
				 "\"outputs\":[\"elements\",\"pcs\",\"store\",\"perfetto\",\"calls\"],"
				 "\"snapshot\":{\"pid\":4000,\"clock\":\"monotonic\",\"monotonic\":900}}";

/* The owner's side, which has no images. */
static void *owner(void *data)
{
	struct decoder_event e = { 0 };
	int fd = *(int *)data;

	while (decoder_receive(fd, 0, &e) == 0) {
		if (e.type == DECODER_IMAGE)
			decoder_reply_image(fd, e.index, -1, "not here");
		decoder_event_done(&e);
	}
	return NULL;
}

static int make_code(void)
{
	struct {
		struct captured_code_header header;
		struct captured_code_piece piece;
		uint32_t code[FUZZ_CODE_WORDS];
	} blob = { .header = { CAPTURED_CODE_MAGIC, 0 }, .piece = { 0, FUZZ_BASE, sizeof(blob.code) } };

	memcpy(blob.code, fuzz_code, sizeof(blob.code));
	return fuzz_fd(&blob, sizeof(blob));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pair[2], fds[7], n = 0, rc;
	pthread_t thread;
	struct decode_job job;

	fuzz_guard();
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	fds[n++] = fuzz_fd(data, size);
	fds[n++] = make_code();
	while (n < 7)
		fds[n++] = memfd_create("output", MFD_CLOEXEC);
	fuzz_require(io_send_fds(pair[1], start_text, strlen(start_text), fds, 7) == 0);
	fuzz_require(job_receive(pair[0], &job) == 0);
	fuzz_require(pthread_create(&thread, NULL, owner, &pair[1]) == 0);
	rc = decode_run(&job);
	fuzz_require(rc == 0 || job.reason.text[0]);
	close(pair[0]);
	pthread_join(thread, NULL);
	close(pair[1]);
	close(job.input);
	closep(&job.code);
	for (size_t i = 0; i < job.n_outputs; i++)
		close(job.outputs[i].fd);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	json_object_put(job.start);
	return 0;
}

void fuzz_seeds(void)
{
	_cleanup_close_ int fd = fuzz_perfdata();

	fuzz_seed_fd(fd);
}
