/* SPDX-License-Identifier: MIT */
/* lib/code/image.c: the input is captured code, and a file mapped at the same addresses. */
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/captured-code.h"
#include "lib/code/image.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = fuzz_fd(data, size);
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	uint8_t bytes[256];
	uint32_t file;

	fuzz_require(image_set_new(&s) == 0 && image_file_add(s, "/bin/prog", NULL, 0, 0, &file) == 0);
	fuzz_require(image_map(s, FUZZ_PID, &(struct image_mapping){ FUZZ_BASE, 0x2000, 0, 5, file }) == 0);
	image_add_code(s, FUZZ_PID, fd);
	/* The mapped file has the same bytes. */
	image_file_attach(s, file, fuzz_fd(data, size), NULL);
	if (image_seal(s) < 0)
		return 0;
	for (uint64_t time = 0; time < 16; time += 3) {
		for (uint64_t at = FUZZ_BASE - 64; at < FUZZ_BASE + 0x2040; at += 100)
			fuzz_require(image_read(s, FUZZ_PID, at, time, bytes, sizeof(bytes)) <= sizeof(bytes));
		image_version(s, FUZZ_PID, time);
	}
	image_read(s, FUZZ_PID, UINT64_MAX - 8, UINT64_MAX, bytes, sizeof(bytes));
	return 0;
}

void fuzz_seeds(void)
{
	struct {
		struct captured_code_header header;
		struct captured_code_piece first;
		uint32_t code[FUZZ_CODE_WORDS];
		struct captured_code_piece second;
		uint32_t more[2];
	} blob = { .header = { CAPTURED_CODE_MAGIC, 0 },
		   .first = { 0, FUZZ_BASE, sizeof(blob.code) },
		   .second = { 6, FUZZ_BASE + 8, sizeof(blob.more) } };

	memcpy(blob.code, fuzz_code, sizeof(blob.code));
	fuzz_seed(&blob, sizeof(blob));
}
